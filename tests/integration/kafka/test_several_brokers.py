"""Three gateways as three brokers: requests to the wrong broker, and the addresses it returns."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness, acquire
from tests.support import kafka_client
from tests.support.client import connected, unique
from tests.support.kafka_client import KafkaClient, answered, part, runs
from tests.testkit.brokers import Cluster, three_brokers
from tests.testkit.waiting import eventually

NODES = (1, 2, 3)
pytestmark = pytest.mark.xdist_group("three brokers")


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    with three_brokers() as cluster:
        yield cluster


@pytest.fixture
async def harness(brokers: Cluster) -> AsyncIterator[Harness]:
    async with connected(brokers.address) as client:
        yield Harness(client, brokers.kafka)


@pytest.fixture
async def clients(brokers: Cluster) -> AsyncIterator[dict[int, KafkaClient]]:
    """Provides a connection to each broker, by node id, once every broker lists all others."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            node: await stack.enter_async_context(kafka_client.connected(serve.kafka))
            for node, serve in zip(NODES, brokers.processes, strict=True)
        }

        async def all_seen() -> bool:
            seen = [await client.ask(3, 12, topics=[]) for client in clients.values()]
            return all({broker.node_id for broker in one.brokers} == {*NODES} for one in seen)

        await eventually(all_seen)
        yield clients


async def leaders(client: KafkaClient, topic: str) -> dict[int, int]:
    """Returns the leader of each partition."""
    name = part(3, "MetadataRequestTopic", name=topic)
    (found,) = (await client.ask(3, 12, topics=[name])).topics
    return {one.partition_index: one.leader_id for one in found.partitions}


async def coordinator(client: KafkaClient, group: str) -> int:
    """Returns the node that coordinates a group."""
    (found,) = (await client.ask(10, 4, key_type=0, coordinator_keys=[group])).coordinators
    return int(found.node_id)


async def test_partitions_are_spread_and_all_brokers_agree(
    harness: Harness, clients: dict[int, KafkaClient]
) -> None:
    topic, _ = await harness.client.create(24)
    seen = [await leaders(client, topic) for client in clients.values()]
    assert seen[0] == seen[1] == seen[2]
    assert set(seen[0].values()) == {*NODES}


async def test_fetch_at_the_wrong_broker_names_the_leader(
    harness: Harness, clients: dict[int, KafkaClient], brokers: Cluster
) -> None:
    at = await harness.readable(records=3)
    leader = (await leaders(clients[1], at.topic))[0]
    wrong, member = clients[leader % 3 + 1], unique("member")
    for version in (1, 2):
        rejected = await wrong.share_fetch(at.group, member, 0, {at.topic_id: [0]}, version=version)
        assert (rejected.error_code, rejected.acquisition_lock_timeout_ms) == (0, 30_000)
        check_sent_on(answered(rejected)[at.topic_id, 0], rejected, leader, brokers)
        assert answered(rejected)[at.topic_id, 0].records == b""
        acks = {(at.topic_id, 0): [(0, 2, [1])]}
        rejected = await wrong.share_acknowledge(at.group, member, 1, acks, version=version)
        check_sent_on(answered(rejected)[at.topic_id, 0], rejected, leader, brokers)
        rejected = await wrong.share_fetch(at.group, member, 2, acks=acks, version=version, max_wait_ms=0)
        data = answered(rejected)[at.topic_id, 0]
        assert data.acknowledge_error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        check_sent_on(data, rejected, leader, brokers)
    assert await acquire(clients[leader], at, member) == [(0, 2, 1)]


def check_sent_on(data: Any, response: Any, leader: int, brokers: Cluster) -> None:
    """Checks that the response names the leader and its address."""
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == leader
    assert data.current_leader.leader_epoch > 0
    (there,) = response.node_endpoints
    assert there.node_id == leader
    assert f"{there.host}:{there.port}" == brokers.processes[leader - 1].kafka


async def test_share_session_is_opened_at_each_leader(
    harness: Harness, clients: dict[int, KafkaClient]
) -> None:
    at = await harness.readable(records=0, partitions=12)
    for index in range(12):
        await harness.client.publish(at.topic, [f"of {index}"], partition=index)
    by_node: dict[int, list[int]] = {}
    for index, node in (await leaders(clients[1], at.topic)).items():
        by_node.setdefault(node, []).append(index)
    assert len(by_node) == 3
    member = unique("member")
    for node, own in by_node.items():
        opened = await clients[node].share_fetch(at.group, member, 0, {at.topic_id: own})
        assert {index: runs(data) for (_, index), data in answered(opened).items()} == {
            index: [(0, 0, 1)] for index in own
        }
        assert opened.node_endpoints == []


async def test_groups_are_served_by_their_coordinator(
    harness: Harness, clients: dict[int, KafkaClient]
) -> None:
    at = await harness.readable(records=0)
    right = await coordinator(clients[2], at.group)
    wrong = clients[right % 3 + 1]
    code = ErrorCode.NOT_COORDINATOR
    beat = await wrong.heartbeat(at.group, "member", 0, subscribed_topic_names=[at.topic])
    assert beat.error_code == code
    for key, version in ((91, 0), (92, 0)):
        assert (await wrong.ask(key, version, group_id=at.group)).error_code == code
    asked = part(90, "DescribeShareGroupOffsetsRequestGroup", group_id=at.group, topics=None)
    for key, version, fields, responses in (
        (77, 1, {"group_ids": [at.group]}, "groups"),
        (90, 1, {"groups": [asked]}, "groups"),
        (15, 6, {"groups": [at.group]}, "groups"),
        (42, 2, {"groups_names": [at.group]}, "results"),
    ):
        rejected = getattr(await wrong.ask(key, version, **fields), responses)
        assert [(one.group_id, one.error_code) for one in rejected] == [(at.group, code)]
        found = getattr(await clients[right].ask(key, version, **fields), responses)
        assert [one.group_id for one in found] == [at.group]
        assert found[0].error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND)


async def test_each_broker_lists_the_groups_it_coordinates(
    harness: Harness, clients: dict[int, KafkaClient]
) -> None:
    groups = {(await harness.readable(records=0)).group for _ in range(6)}
    listed = [
        {group.group_id for group in (await client.ask(16, 5, types_filter=["share"])).groups} & groups
        for client in clients.values()
    ]
    assert set().union(*listed) == groups
    assert sum(map(len, listed)) == len(groups)
    expected = {group: await coordinator(clients[1], group) for group in groups}
    assert listed == [{group for group, node in expected.items() if node == own} for own in NODES]


async def test_a_disconnect_releases_at_every_leader(
    harness: Harness, clients: dict[int, KafkaClient], brokers: Cluster
) -> None:
    at = await harness.readable(records=2)
    leader = (await leaders(clients[1], at.topic))[0]
    async with kafka_client.connected(brokers.processes[leader - 1].kafka) as leaving:
        assert await acquire(leaving, at, unique("leaving")) == [(0, 1, 1)]
    assert await acquire(clients[leader], at, unique("next")) == [(0, 1, 2)]


async def test_offsets_topic_leaders_are_the_group_coordinators(clients: dict[int, KafkaClient]) -> None:
    shown = await leaders(clients[1], OFFSETS_TOPIC)
    for group in (unique("group") for _ in range(10)):
        assert shown[shard_of(group, len(shown))] == await coordinator(clients[1], group)
