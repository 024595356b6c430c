"""The catalog's gRPC service, served by the process that owns the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceServicer
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.catalog.machine import (
    AlterConfigs,
    CatalogCommand,
    CatalogReply,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ListEdit,
    NameCluster,
    check_request,
)
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic, new_topic_id
from sharebroker_server.catalog.users import CreateUser
from sharebroker_server.group_coordinator.service.access_changes import (
    alter_quotas,
    alter_users,
    create_acls,
    delete_acls,
    in_band,
    update_features,
)
from sharebroker_server.group_coordinator.service.shards import CatalogHost

_log = structlog.get_logger()
_NAMING_PAUSE: Final = 0.1

_RESOURCE_TYPES: Final[Mapping[int, ResourceType]] = {int(kind): kind for kind in ResourceType}

_EDITS: Final = frozenset({pb.CONFIG_OPERATION_APPEND, pb.CONFIG_OPERATION_SUBTRACT})

_CALL_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of the call as a whole; other errors are about one topic or resource."""


class CatalogServicer(ClusterServiceServicer):
    """Kafka's RPCs that change topics, configs, users and ACLs; each of them has its own result."""

    def __init__(self, host: CatalogHost, cluster_id: str, follower: MetadataCache) -> None:
        self._host = host
        self._cluster_id = cluster_id
        self._follower = follower

    async def name_cluster(self, levels: Mapping[str, int], upstream_addresses: str = "") -> None:
        """Returns once the cluster has an id; creates one if this process owns the catalog.

        `levels` are the levels of the features of a new cluster, whose records are at `upstream_addresses`,
        "" for here: then addresses at which no broker ever responded are removed.
        """
        command = NameCluster(self._cluster_id or new_topic_id(), levels, upstream_addresses)
        while not self._is_named(upstream_addresses):
            try:
                named = await self._write(command)
            except KafkaError as error:
                _log.debug("cluster has no id yet", error=str(error))
            else:
                if isinstance(named, KafkaError) and named.code is ErrorCode.POLICY_VIOLATION:
                    _log.error("upstream addresses not removed", reason=named.message)
                    return
            await asyncio.sleep(_NAMING_PAUSE)

    def _is_named(self, upstream_addresses: str) -> bool:
        catalog = self._follower.catalog
        return bool(catalog.cluster_id and (upstream_addresses or not catalog.upstream_addresses))

    async def create_user(self, command: CreateUser) -> None:
        """Returns once the user exists and is a super user; creates it if this process owns the catalog."""
        users = self._follower.catalog.users
        event = "first user made a super user" if users.credentials(command.user) else "first user created"
        while not self._follower.catalog.users.is_super_user(command.user):
            try:
                created = await self._write(command)
            except KafkaError as error:
                _log.debug("user is not a super user yet", user=command.user, error=str(error))
            else:
                if isinstance(created, KafkaError):
                    _log.error("first user not created", user=command.user, reason=created.message)
                    return
                _log.info(event, user=command.user)
            await asyncio.sleep(_NAMING_PAUSE)

    async def CreateTopics(self, request: pb.CreateTopicsRequest, _context: Any) -> pb.CreateTopicsResponse:
        """Kafka: CreateTopics (19). Raises KafkaError: as `check_request`."""
        check_request(
            (topic.num_partitions for topic in request.topics), self._follower.broker.num_partitions
        )
        topics = await gather_in_portions(
            lambda topic: self._create(topic, request.validate_only), request.topics
        )
        return pb.CreateTopicsResponse(topics=topics)

    async def DeleteTopics(self, request: pb.DeleteTopicsRequest, _context: Any) -> pb.DeleteTopicsResponse:
        """Kafka: DeleteTopics (20)."""
        topics = await gather_in_portions(self._delete, request.topics)
        return pb.DeleteTopicsResponse(topics=topics)

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, _context: Any
    ) -> pb.CreatePartitionsResponse:
        """Kafka: CreatePartitions (37)."""
        results = await gather_in_portions(
            lambda topic: self._add_partitions(topic, request.validate_only), request.topics
        )
        return pb.CreatePartitionsResponse(results=results)

    async def IncrementalAlterConfigs(
        self, request: pb.IncrementalAlterConfigsRequest, _context: Any
    ) -> pb.IncrementalAlterConfigsResponse:
        """Kafka: IncrementalAlterConfigs (44)."""
        results = await gather_in_portions(
            lambda resource: self._alter(resource, request.validate_only), request.resources
        )
        return pb.IncrementalAlterConfigsResponse(responses=results)

    async def AlterUserScramCredentials(
        self, request: pb.AlterUserScramCredentialsRequest, _context: Any
    ) -> pb.AlterUserScramCredentialsResponse:
        """Kafka: AlterUserScramCredentials (51)."""
        return await alter_users(request, self._write)

    async def CreateAcls(self, request: pb.CreateAclsRequest, _context: Any) -> pb.CreateAclsResponse:
        """Kafka: CreateAcls (30)."""
        return await create_acls(request, self._write)

    async def DeleteAcls(self, request: pb.DeleteAclsRequest, _context: Any) -> pb.DeleteAclsResponse:
        """Kafka: DeleteAcls (31)."""
        return await delete_acls(request, self._write)

    async def AlterClientQuotas(
        self, request: pb.AlterClientQuotasRequest, _context: Any
    ) -> pb.AlterClientQuotasResponse:
        """Kafka: AlterClientQuotas (49)."""
        return await alter_quotas(request, self._write)

    async def UpdateFeatures(
        self, request: pb.UpdateFeaturesRequest, _context: Any
    ) -> pb.UpdateFeaturesResponse:
        """Kafka: UpdateFeatures (57). Raises KafkaError: as `updated_levels`."""
        return await update_features(request, self._follower.unstored, self._write)

    async def _create(
        self, requested: pb.CreateTopicsRequest.Topic, validate_only: bool
    ) -> pb.CreateTopicsResponse.Topic:
        topic = await self._write(
            CreateTopic(
                requested.name,
                new_topic_id(),
                requested.num_partitions,
                dict(requested.configs),
                validate_only,
            )
        )
        if not isinstance(topic, Topic):
            return pb.CreateTopicsResponse.Topic(name=requested.name, **in_band(topic))
        if not validate_only:
            _log.info("topic created", topic=topic.name, id=topic.topic_id, partitions=topic.partitions)
        return pb.CreateTopicsResponse.Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            num_partitions=topic.partitions,
            configs=dict(topic.configs),
        )

    async def _delete(self, requested: pb.DeleteTopicsRequest.Topic) -> pb.DeleteTopicsResponse.Topic:
        topic = await self._write(DeleteTopic(requested.name, requested.topic_id))
        if not isinstance(topic, Topic):
            return pb.DeleteTopicsResponse.Topic(
                name=requested.name, topic_id=requested.topic_id, **in_band(topic)
            )
        _log.info("topic deleted", topic=topic.name, id=topic.topic_id)
        return pb.DeleteTopicsResponse.Topic(name=topic.name, topic_id=topic.topic_id)

    async def _add_partitions(
        self, requested: pb.CreatePartitionsRequest.Topic, validate_only: bool
    ) -> pb.CreatePartitionsResponse.Topic:
        outcome = await self._write(CreatePartitions(requested.name, requested.count, validate_only))
        if not isinstance(outcome, KafkaError) and not validate_only:
            _log.info("topic partitions added", topic=requested.name, partitions=requested.count)
        return pb.CreatePartitionsResponse.Topic(name=requested.name, **in_band(outcome))

    async def _alter(
        self, requested: pb.IncrementalAlterConfigsRequest.Resource, validate_only: bool
    ) -> pb.IncrementalAlterConfigsResponse.Resource:
        try:
            command = _alteration(requested, validate_only)
        except KafkaError as error:
            return _altered(requested, error)
        outcome = await self._write(command)
        if isinstance(outcome, Mapping) and outcome and not validate_only:
            kind, name = command.resource.type.name.lower(), command.resource.name
            _log.info("configs changed", resource=kind, name=name, configs=dict(outcome))
        return _altered(requested, outcome)

    async def _write(self, command: CatalogCommand) -> CatalogReply | KafkaError:
        try:
            reply = await self._host.shard(0).submit(command)
        except KafkaError as error:
            if error.code in _CALL_ERRORS:
                raise
            return error
        self._follower.poll_now()
        return reply


def _alteration(requested: pb.IncrementalAlterConfigsRequest.Resource, validate_only: bool) -> AlterConfigs:
    kind = _RESOURCE_TYPES.get(requested.resource_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A resource must be a topic, a broker or a group.")
    changes = {config.name: _change(config) for config in requested.configs}
    return AlterConfigs(
        ConfigResource(kind, requested.resource_name), changes, validate_only, requested.replace
    )


def _change(requested: pb.IncrementalAlterConfigsRequest.Config) -> str | ListEdit | None:
    value = requested.value if requested.HasField("value") else None
    if requested.config_operation == pb.CONFIG_OPERATION_UNSPECIFIED:
        return value
    if requested.config_operation not in _EDITS or value is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Operation {requested.config_operation} cannot change {requested.name} to {value!r}.",
        )
    return ListEdit(value, subtract=requested.config_operation == pb.CONFIG_OPERATION_SUBTRACT)


def _altered(
    requested: pb.IncrementalAlterConfigsRequest.Resource, outcome: CatalogReply | KafkaError
) -> pb.IncrementalAlterConfigsResponse.Resource:
    changed = outcome if isinstance(outcome, Mapping) else {}
    return pb.IncrementalAlterConfigsResponse.Resource(
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
        configs=[
            pb.IncrementalAlterConfigsResponse.Config(name=name, value=value)
            for name, value in changed.items()
        ],
        **in_band(outcome),
    )
