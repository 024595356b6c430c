"""Gateways that have the share state of the same topics initialised at the same time."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.consume.topic_acquire import StateInitializer
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.routing.router import Router
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster
from tests.unit.gateway.fakes import OwnerLookup, member

TOPICS: Final = 12
PARTITIONS: Final = 2
SECONDS: Final = 10.0


def gateway(broker: Broker) -> Gateway:
    """Returns a gateway that calls the group coordinator of this process."""
    router = Router(OwnerLookup(member(1, "127.0.0.1:1")), "1/1")
    router.register_local(GroupCoordinatorServiceStub, broker.groups)
    return Gateway(router, broker.follower, BrokerConfig())


async def created(broker: Broker) -> list[Topic]:
    """Creates topics; returns them."""
    ids = [await broker.create(f"topic-{number:02}", PARTITIONS) for number in range(TOPICS)]
    found = map(broker.follower.topic_by_id, ids)
    return [topic for topic in found if topic is not None]


async def members(broker: Broker) -> int:
    """Returns the number of members of the group."""
    described = await broker.groups.ShareGroupDescribe(pb.ShareGroupDescribeRequest(group_ids=["g"]), CONTEXT)
    return len(described.groups[0].members)


@pytest.mark.parametrize("consumers", [0, 1, 3])
async def test_gateways_initialise_the_same_topics_at_once(
    cluster: Cluster, broker: Broker, consumers: int
) -> None:
    """The coordinator divides the topics among members with equal subscriptions: none is assigned all."""
    topics = await created(broker)
    for number in range(consumers):
        await broker.beat(f"consumer-{number}", 0, *(topic.name for topic in topics))
    gateways = [gateway(broker) for _ in range(2)]
    initializers = [StateInitializer(one) for one in gateways]
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(one.ensure("g", topics, Deadline(SECONDS)) for one in initializers))
    assert all(len(one._done) == TOPICS for one in initializers)
    keys = {SharePartitionKey("g", topic.topic_id, index) for topic in topics for index in range(PARTITIONS)}
    assert cluster.states.states.keys() == keys
    for one in gateways:
        await one.stop()
    assert await members(broker) == consumers
