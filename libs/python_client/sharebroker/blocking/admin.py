"""The blocking administration client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from sharebroker.admin_model import ConfigValue, GroupDescription, GroupListing, GroupOffset, TopicDescription
from sharebroker.aio.admin import LATEST
from sharebroker.aio.admin import Admin as AsyncAdmin
from sharebroker.blocking.loop_thread import LoopThread
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import InspectShareGroupStateResponse
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2 import InspectRecordsResponse


class Admin:
    """Manages topics, groups and configs (Kafka: Admin). Each method raises KafkaError and then changed
    nothing.
    """

    def __init__(self, address: str, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds."""
        self._thread, self._admin = LoopThread.hosting(lambda: AsyncAdmin(address, request_timeout))
        self._closed = False

    def __del__(self) -> None:
        if hasattr(self, "_admin") and not self._closed:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._admin.close())
            self._thread.close()

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Creates a topic; `configs` maps Kafka's property names to values.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG.
        """
        return self._thread.call(self._admin.create_topic(name, partitions, configs))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        self._thread.call(self._admin.delete_topic(name))

    def list_topics(self) -> list[TopicDescription]:
        """Returns all topics, sorted by name."""
        return self._thread.call(self._admin.list_topics())

    def describe_topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        return self._thread.call(self._admin.describe_topic(name))

    def create_partitions(self, name: str, count: int) -> None:
        """Increases the partition count to `count`. Raises KafkaError INVALID_PARTITIONS."""
        self._thread.call(self._admin.create_partitions(name, count))

    def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int = LATEST
    ) -> dict[TopicPartition, int | None]:
        """Returns, by partition, the first offset at or after `timestamp`, or None if there is none.

        `timestamp` is in milliseconds since the Unix epoch; EARLIEST and LATEST mean the bounds of the log.
        """
        return self._thread.call(self._admin.list_offsets(partitions, timestamp))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes records below the given offsets (-1: all) and returns the log start offsets."""
        return self._thread.call(self._admin.delete_records(before))

    def topic_configs(self, name: str) -> list[ConfigValue]:
        """Returns the effective configs of a topic."""
        return self._thread.call(self._admin.topic_configs(name))

    def group_configs(self, group_id: str) -> list[ConfigValue]:
        """Returns the effective configs of a group, which need not exist."""
        return self._thread.call(self._admin.group_configs(group_id))

    def alter_topic_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Sets properties; None restores the default. Raises KafkaError INVALID_CONFIG."""
        self._thread.call(self._admin.alter_topic_configs(name, configs))

    def alter_group_configs(self, group_id: str, configs: Mapping[str, str | None]) -> None:
        """Sets properties; None restores the default. Raises KafkaError INVALID_CONFIG."""
        self._thread.call(self._admin.alter_group_configs(group_id, configs))

    def list_groups(self) -> list[GroupListing]:
        """Returns all share groups, sorted by id."""
        return self._thread.call(self._admin.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """Returns a group and its members. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return self._thread.call(self._admin.describe_group(group_id))

    def delete_group(self, group_id: str) -> None:
        """Deletes a group without members, and its state. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        self._thread.call(self._admin.delete_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, GroupOffset]:
        """Returns the group's position in each of its partitions. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return self._thread.call(self._admin.group_offsets(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets the start offsets of a group without members. Raises KafkaError NON_EMPTY_GROUP."""
        self._thread.call(self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Deletes a memberless group's state in these topics. Raises KafkaError NON_EMPTY_GROUP."""
        self._thread.call(self._admin.delete_group_offsets(group_id, topics))

    def inspect_state(self, group_id: str, partition: TopicPartition) -> InspectShareGroupStateResponse:
        """Returns a share-partition's stored checkpoint and deltas, and the state they replay to."""
        return self._thread.call(self._admin.inspect_state(group_id, partition))

    def inspect_records(
        self, group_id: str, partitions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, InspectRecordsResponse.Partition]:
        """Returns held records and offsets without a record, from the given offsets on.

        An offset of -1 does not read the log. A response ends at its `next_offset`; request the rest from
        there.
        """
        return self._thread.call(self._admin.inspect_records(group_id, partitions))
