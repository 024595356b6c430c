"""The cluster's metadata as RPCs, served by the process that owns the catalog."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import structlog

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceServicer
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.codec import CatalogCodec
from sharebroker_server.catalog.commands import (
    AlterConfigs,
    CatalogCommand,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ListEdit,
    NameCluster,
)
from sharebroker_server.catalog.decide import CatalogReply
from sharebroker_server.catalog.machine import SHARD, CatalogMachine
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogRecord, ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.topic_ids import new_topic_id
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.rpc.partition_errors import refusal
from sharebroker_server.stream_log.port import StreamLog

CatalogHost = ShardHost[CatalogCommand, CatalogRecord, CatalogReply]

_logger = logging.getLogger(__name__)
_events = structlog.get_logger()
_NAMING_PAUSE: Final = 0.1

_RESOURCE_TYPES: Final[Mapping[int, ResourceType]] = {int(kind): kind for kind in ResourceType}

_EDITS: Final = frozenset({pb.CONFIG_OPERATION_APPEND, pb.CONFIG_OPERATION_SUBTRACT})

_NOT_HERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Refusals of the call as a whole; others are about one topic or resource."""


def make_catalog_host(log: StreamLog, config: GroupCoordinatorConfig, follower: MetadataCache) -> CatalogHost:
    """The catalog's one shard; start it with the process's lease holder."""
    return ShardHost(
        SHARD, None, log, lambda _: CatalogMachine(follower.static), CatalogCodec(), config.runtime
    )


class Cluster(ClusterServiceServicer):
    """Kafka's RPCs that change topics and settings; each topic or resource has its own result."""

    def __init__(self, host: CatalogHost, config: GroupCoordinatorConfig, follower: MetadataCache) -> None:
        self._host = host
        self._timeout = config.write_timeout
        self._cluster_id = config.cluster_id
        self._follower = follower

    async def name_cluster(self) -> None:
        """Sees to it that the cluster has an id, whoever owns the catalog; returns when it has."""
        while not self._follower.catalog.cluster_id:
            try:
                await self._ask(NameCluster(self._cluster_id or new_topic_id()))
            except KafkaError as error:
                _logger.debug("the cluster has no id yet: %s", error)
            await asyncio.sleep(_NAMING_PAUSE)

    async def CreateTopics(self, request: pb.CreateTopicsRequest, _context: Any) -> pb.CreateTopicsResponse:
        """Kafka: CreateTopics (19)."""
        topics = await asyncio.gather(*(self._create(some, request.validate_only) for some in request.topics))
        return pb.CreateTopicsResponse(topics=topics)

    async def DeleteTopics(self, request: pb.DeleteTopicsRequest, _context: Any) -> pb.DeleteTopicsResponse:
        """Kafka: DeleteTopics (20)."""
        topics = await asyncio.gather(*map(self._delete, request.topics))
        return pb.DeleteTopicsResponse(topics=topics)

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, _context: Any
    ) -> pb.CreatePartitionsResponse:
        """Kafka: CreatePartitions (37)."""
        results = await asyncio.gather(*(self._grow(some, request.validate_only) for some in request.topics))
        return pb.CreatePartitionsResponse(results=results)

    async def IncrementalAlterConfigs(
        self, request: pb.IncrementalAlterConfigsRequest, _context: Any
    ) -> pb.IncrementalAlterConfigsResponse:
        """Kafka: IncrementalAlterConfigs (44)."""
        results = await asyncio.gather(
            *(self._alter(some, request.validate_only) for some in request.resources)
        )
        return pb.IncrementalAlterConfigsResponse(responses=results)

    async def _create(
        self, asked: pb.CreateTopicsRequest.Topic, validate_only: bool
    ) -> pb.CreateTopicsResponse.Topic:
        topic = await self._ask(
            CreateTopic(asked.name, new_topic_id(), asked.num_partitions, dict(asked.configs), validate_only)
        )
        if not isinstance(topic, Topic):
            return pb.CreateTopicsResponse.Topic(name=asked.name, **_in_band(topic))
        if not validate_only:
            _events.info("topic created", topic=topic.name, id=topic.topic_id, partitions=topic.partitions)
        return pb.CreateTopicsResponse.Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            num_partitions=topic.partitions,
            configs=dict(topic.configs),
        )

    async def _delete(self, asked: pb.DeleteTopicsRequest.Topic) -> pb.DeleteTopicsResponse.Topic:
        topic = await self._ask(DeleteTopic(asked.name, asked.topic_id))
        if not isinstance(topic, Topic):
            return pb.DeleteTopicsResponse.Topic(name=asked.name, topic_id=asked.topic_id, **_in_band(topic))
        _events.info("topic deleted", topic=topic.name, id=topic.topic_id)
        return pb.DeleteTopicsResponse.Topic(name=topic.name, topic_id=topic.topic_id)

    async def _grow(
        self, asked: pb.CreatePartitionsRequest.Topic, validate_only: bool
    ) -> pb.CreatePartitionsResponse.Topic:
        outcome = await self._ask(CreatePartitions(asked.name, asked.count, validate_only))
        if not isinstance(outcome, KafkaError) and not validate_only:
            _events.info("partitions added to a topic", topic=asked.name, partitions=asked.count)
        return pb.CreatePartitionsResponse.Topic(name=asked.name, **_in_band(outcome))

    async def _alter(
        self, asked: pb.IncrementalAlterConfigsRequest.Resource, validate_only: bool
    ) -> pb.IncrementalAlterConfigsResponse.Resource:
        try:
            command = _alteration(asked, validate_only)
        except KafkaError as error:
            return _altered(asked, error)
        outcome = await self._ask(command)
        if isinstance(outcome, Mapping) and outcome and not validate_only:
            kind, name = command.resource.type.name.lower(), command.resource.name
            _events.info("settings changed", of=kind, name=name, settings=dict(outcome))
        return _altered(asked, outcome)

    async def _ask(self, command: CatalogCommand) -> CatalogReply | KafkaError:
        try:
            reply = await self._host.shard(0).write(command, timeout=self._timeout)
        except KafkaError as error:
            if error.code in _NOT_HERE:
                raise
            return error
        self._follower.poll_now()
        return reply


def _alteration(asked: pb.IncrementalAlterConfigsRequest.Resource, validate_only: bool) -> AlterConfigs:
    kind = _RESOURCE_TYPES.get(asked.resource_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A resource is a topic, a broker or a group.")
    changes = {some.name: _change(some) for some in asked.configs}
    return AlterConfigs(ConfigResource(kind, asked.resource_name), changes, validate_only, asked.replace)


def _change(asked: pb.IncrementalAlterConfigsRequest.Config) -> str | ListEdit | None:
    value = asked.value if asked.HasField("value") else None
    if asked.config_operation == pb.CONFIG_OPERATION_UNSPECIFIED:
        return value
    if asked.config_operation not in _EDITS or value is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{asked.name} cannot be changed by operation {asked.config_operation} and value {value!r}.",
        )
    return ListEdit(value, subtract=asked.config_operation == pb.CONFIG_OPERATION_SUBTRACT)


def _altered(
    asked: pb.IncrementalAlterConfigsRequest.Resource, outcome: CatalogReply | KafkaError
) -> pb.IncrementalAlterConfigsResponse.Resource:
    changed = outcome if isinstance(outcome, Mapping) else {}
    return pb.IncrementalAlterConfigsResponse.Resource(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            pb.IncrementalAlterConfigsResponse.Config(name=name, value=value)
            for name, value in changed.items()
        ],
        **_in_band(outcome),
    )


def _in_band(outcome: CatalogReply | KafkaError) -> dict[str, Any]:
    return refusal(outcome if isinstance(outcome, KafkaError) else None)
