"""The settings of dead letters and circuit breakers in the catalog, and the changes that its owner makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import FAILED_PERCENT, PAUSE_REASON, PAUSED, GroupConfig
from sharebroker_server.routing.router import Router
from sharebroker_server.share_partition_leader.dead_letters.target import (
    DeadLetterTarget,
    DeadLetterTopic,
    FailurePolicy,
)

if TYPE_CHECKING:
    from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceAsyncStub

T = TypeVar("T")

CHANGE_TIMEOUT: Final = 10.0
"""Seconds in which a change must be stored, and a new topic then be in the metadata cache."""

CREATED_WITH: Final = {
    "errors.deadletterqueue.group.enable": "true",
    "message.timestamp.type": "CreateTime",
}
"""The configs of a topic that is created for letters, as in Kafka."""

RETENTION_MS: Final = 14 * 24 * 3_600_000
"""The retention of such a topic if log.retention.ms has its default. In Kafka it is always the broker's."""

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class CatalogLetterSettings:
    """Implements LetterSettings."""

    def __init__(self, catalog: MetadataCache, router: Router) -> None:
        self._catalog = catalog
        self._router = router

    @property
    def auto_create(self) -> bool:
        """errors.deadletterqueue.auto.create.topics.enable of the broker."""
        return self._catalog.broker.errors_deadletterqueue_auto_create_topics_enable

    @property
    def prefix(self) -> str:
        """errors.deadletterqueue.topic.name.prefix of the broker; "" permits every name."""
        return self._catalog.broker.errors_deadletterqueue_topic_name_prefix

    def target(self, group_id: str) -> DeadLetterTarget:
        """Returns the settings of a group."""
        config = self._catalog.group_config(group_id)
        return DeadLetterTarget(
            config.errors_deadletterqueue_topic_name,
            config.errors_deadletterqueue_copy_record_enable,
            FailurePolicy(config.errors_deadletterqueue_failure_policy),
        )

    def topic(self, name: str) -> DeadLetterTopic | None:
        """Returns a topic, None if there is none with this name."""
        topic = self._catalog.topic(name)
        if topic is None:
            return None
        config = self._catalog.topic_config(topic)
        return DeadLetterTopic(
            topic.topic_id,
            topic.partitions,
            config.errors_deadletterqueue_group_enable,
            config.max_message_bytes,
        )

    async def create(self, name: str) -> None:
        """Creates a topic that is enabled for letters; returns when the metadata cache has it.

        Raises KafkaError.
        """
        configs = dict(CREATED_WITH)
        if self._catalog.broker.log_retention_ms == BrokerConfig().log_retention_ms:
            configs["retention.ms"] = str(RETENTION_MS)
        wanted = pb.CreateTopicsRequest.Topic(name=name, num_partitions=-1, configs=configs)
        request = pb.CreateTopicsRequest(topics=[wanted])
        response = await _at_owner(
            self._router, lambda stub: stub.CreateTopics(request, timeout=CHANGE_TIMEOUT)
        )
        (created,) = response.topics
        if created.error_code:
            raise KafkaError(ErrorCode(created.error_code), created.error_message)
        await self._catalog.wait_for(lambda catalog: catalog.topic(name) is not None, CHANGE_TIMEOUT)


class CatalogGroups:
    """Implements Groups."""

    def __init__(self, catalog: MetadataCache, router: Router) -> None:
        self._catalog = catalog
        self._router = router

    @property
    def most(self) -> int:
        """metrics.max.share.partitions of the broker."""
        return self._catalog.broker.metrics_max_share_partitions

    def limited(self) -> Iterator[tuple[str, GroupConfig]]:
        """Yields the groups with a limit. Other groups with configs cost nothing."""
        for group in self._catalog.catalog.groups_with(FAILED_PERCENT):
            config = self._catalog.group_config(group)
            if config.share_breaker_failed_percent:
                yield group, config

    def paused(self) -> Iterator[str]:
        """Yields the names of paused groups in order."""
        for group in self._catalog.catalog.groups_with(PAUSED):
            if self._catalog.group_config(group).share_paused:
                yield group

    async def pause(self, group_id: str, reason: str) -> None:
        """Sets the configs of a paused group. Raises KafkaError."""
        entry = pb.IncrementalAlterConfigsRequest.Config
        resource = pb.IncrementalAlterConfigsRequest.Resource(
            resource_type=pb.ResourceType.RESOURCE_TYPE_GROUP,
            resource_name=group_id,
            configs=[entry(name=PAUSED, value="true"), entry(name=PAUSE_REASON, value=reason)],
        )
        request = pb.IncrementalAlterConfigsRequest(resources=[resource])
        response = await _at_owner(
            self._router, lambda stub: stub.IncrementalAlterConfigs(request, timeout=CHANGE_TIMEOUT)
        )
        (changed,) = response.responses
        if changed.error_code:
            raise KafkaError(ErrorCode(changed.error_code), changed.error_message)


async def _at_owner(router: Router, send: Callable[[ClusterServiceAsyncStub], Awaitable[T]]) -> T:
    """Calls the owner of the catalog once; finds it again for the next call if it has moved.

    Raises KafkaError.
    """
    try:
        return await send(await router.catalog())
    except KafkaError as error:
        if error.code in _MOVED:
            router.forget_catalog()
        raise
