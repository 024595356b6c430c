"""The blocking administration client."""

from __future__ import annotations

from typing_extensions import override

from sharebroker.aio.admin import Admin as AsyncAdmin
from sharebroker.blocking.loop_thread import BlockingClient, blocking
from sharebroker_protocol.address import Address


class Admin(BlockingClient[AsyncAdmin]):
    """Manages topics, groups, configs, users, ACLs, quotas and features (Kafka: Admin).

    Each method raises KafkaError and then changed nothing. `sharebroker.aio.Admin` describes the methods.
    """

    def __init__(self, address: str | Address, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds."""
        super().__init__(lambda: AsyncAdmin(address, request_timeout))

    @override
    def close(self) -> None:
        """Closes the connection. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._client.close())
            self._thread.close()

    create_topic = blocking(AsyncAdmin.create_topic)
    delete_topic = blocking(AsyncAdmin.delete_topic)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topic = blocking(AsyncAdmin.describe_topic)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    log_sizes = blocking(AsyncAdmin.log_sizes)
    delete_records = blocking(AsyncAdmin.delete_records)
    recall_record = blocking(AsyncAdmin.recall_record)
    topic_configs = blocking(AsyncAdmin.topic_configs)
    group_configs = blocking(AsyncAdmin.group_configs)
    alter_topic_configs = blocking(AsyncAdmin.alter_topic_configs)
    alter_group_configs = blocking(AsyncAdmin.alter_group_configs)
    enable_dead_letters = blocking(AsyncAdmin.enable_dead_letters)
    resume_group = blocking(AsyncAdmin.resume_group)
    list_users = blocking(AsyncAdmin.list_users)
    set_password = blocking(AsyncAdmin.set_password)
    delete_user = blocking(AsyncAdmin.delete_user)
    list_acls = blocking(AsyncAdmin.list_acls)
    create_acls = blocking(AsyncAdmin.create_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    list_quotas = blocking(AsyncAdmin.list_quotas)
    alter_quotas = blocking(AsyncAdmin.alter_quotas)
    list_features = blocking(AsyncAdmin.list_features)
    set_features = blocking(AsyncAdmin.set_features)
    list_groups = blocking(AsyncAdmin.list_groups)
    describe_group = blocking(AsyncAdmin.describe_group)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    describe_consumer_groups = blocking(AsyncAdmin.describe_consumer_groups)
    offsets_of_groups = blocking(AsyncAdmin.offsets_of_groups)
    delete_group = blocking(AsyncAdmin.delete_group)
    group_offsets = blocking(AsyncAdmin.group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)
    failed_records = blocking(AsyncAdmin.failed_records)
    retry_failed_records = blocking(AsyncAdmin.retry_failed_records)
    inspect_state = blocking(AsyncAdmin.inspect_state)
    inspect_records = blocking(AsyncAdmin.inspect_records)
