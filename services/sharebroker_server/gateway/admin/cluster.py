"""Cluster metadata: nodes, topics, partitions and coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.catalog.topics import Topic, check_not_internal, check_topic_name
from sharebroker_server.gateway.admin.topics import create_missing
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import GROUP_COORDINATOR
from sharebroker_server.rpc.errors import refusal, wire

NAMED_WITHIN: Final = 2.0
"""Limit of the wait of Metadata for the id of a new cluster."""

_NAMES_AT_ONCE: Final = 50
"""The number of topics that Metadata describes in one turn of the event loop."""

_PARTITIONS_AT_ONCE: Final = 200
"""The number of partitions whose leaders Metadata looks up in one turn of the event loop."""


async def cluster_id(gateway: Gateway, deadline: Deadline) -> str:
    """Returns the cluster id, or "" if a new cluster did not get one in time."""
    if not gateway.catalog.catalog.cluster_id:
        with suppress(KafkaError):
            await gateway.catalog.wait_for(
                lambda c: bool(c.cluster_id), min(deadline.remaining(), NAMED_WITHIN)
            )
    return gateway.catalog.catalog.cluster_id


async def metadata(gateway: Gateway, request: pb.MetadataRequest, deadline: Deadline) -> pb.MetadataResponse:
    """Returns nodes and topics; an unknown topic has the error in its entry."""
    names = list(request.topics) or [topic.name for topic in gateway.catalog.catalog.topics()]
    create = bool(request.topics) and request.allow_auto_topic_creation
    return await metadata_of(gateway, names, deadline, create=create)


async def metadata_of(
    gateway: Gateway, names: Iterable[str], deadline: Deadline, *, create: bool
) -> pb.MetadataResponse:
    """Returns nodes and the named topics; `create` creates missing ones if the configuration allows it."""
    # Before the nodes: looking up leaders may add members to the cached list.
    topics: dict[str, pb.MetadataResponse.Topic] = {}
    for number, name in enumerate(dict.fromkeys(names)):
        if number % _NAMES_AT_ONCE == _NAMES_AT_ONCE - 1:
            await gateway.turns.next()
        topics[name] = await _topic(gateway, name, create=create)
    if create:
        unknown = wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        missing = [name for name, topic in topics.items() if topic.error_code == unknown]
        for name, failure in (await create_missing(gateway, missing, deadline)).items():
            topics[name] = _failed(name, failure) if failure else await _topic(gateway, name, create=create)
    return pb.MetadataResponse(
        cluster_id=await cluster_id(gateway, deadline),
        nodes=[_node(member) for member in gateway.router.members if not member.is_importing],
        topics=topics.values(),
    )


async def find_coordinator(
    gateway: Gateway, request: pb.FindCoordinatorRequest
) -> pb.FindCoordinatorResponse:
    """Returns the coordinator of each group, or of the state of each "group:topicId:partition"."""
    return pb.FindCoordinatorResponse(
        coordinators=await gateway.turns.gather(
            lambda key: _coordinator(gateway, request.key_type, key), request.coordinator_keys
        )
    )


def _node(member: ClusterMember) -> pb.MetadataResponse.Node:
    return pb.MetadataResponse.Node(
        node_id=member.node_id, address=member.address, roles=sorted(member.roles)
    )


async def _topic(gateway: Gateway, name: str, *, create: bool) -> pb.MetadataResponse.Topic:
    """Returns a topic, or an entry with its error. With `create` an internal topic is an error."""
    try:
        check_topic_name(name)
        if create:
            check_not_internal(name)
        topic = gateway.topic(name)
    except KafkaError as error:
        return _failed(name, error)
    return pb.MetadataResponse.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=await _partitions(gateway, topic),
        configs=topic.configs,
    )


def _failed(name: str, error: KafkaError) -> pb.MetadataResponse.Topic:
    return pb.MetadataResponse.Topic(error_code=wire(error.code), name=name)


async def _partitions(gateway: Gateway, topic: Topic) -> list[pb.MetadataResponse.Partition]:
    found: list[pb.MetadataResponse.Partition] = []
    for first in range(0, topic.partitions, _PARTITIONS_AT_ONCE):
        if first:
            await gateway.turns.next()
        indexes = range(first, min(first + _PARTITIONS_AT_ONCE, topic.partitions))
        resources = [names.partition(topic.topic_id, index) for index in indexes]
        owners = await asyncio.gather(*map(gateway.router.owner_of, resources))
        found += [
            pb.MetadataResponse.Partition(
                partition_index=index, leader_id=owner.node_id if owner else -1, leader_epoch=-1
            )
            for index, owner in zip(indexes, owners, strict=True)
        ]
    return found


async def _coordinator(
    gateway: Gateway, key_type: pb.KeyType.ValueType, key: str
) -> pb.FindCoordinatorResponse.Coordinator:
    try:
        member = await gateway.router.owner_of(_coordinator_resource(gateway, key_type, key))
        if member is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        return pb.FindCoordinatorResponse.Coordinator(key=key, node_id=-1, **refusal(error))
    return pb.FindCoordinatorResponse.Coordinator(key=key, node_id=member.node_id, address=member.address)


def _coordinator_resource(gateway: Gateway, key_type: pb.KeyType.ValueType, key: str) -> str:
    if key_type != pb.KEY_TYPE_SHARE:
        return names.shard(GROUP_COORDINATOR, gateway.router.group_shard(key))
    # From the right: a group id may contain colons.
    group_id, topic_id, partition = ("::" + key).rsplit(":", 2)
    if not group_id.removeprefix("::") or not topic_id or not partition.isdecimal():
        raise invalid_field("coordinator_keys", f"{key!r} is not group:topicId:partition.")
    shard = gateway.router.share_shard(group_id.removeprefix("::"), topic_id, int(partition))
    return gateway.router.state_resource(shard)
