"""The server's periodic work: it deletes old records and evicts idle sessions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.support.client import TIMEOUT, Client, connected, unique
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

SOON = ("--set", "log.retention.check.interval.ms=200", "--set", "connections.max.idle.ms=500")

pytestmark = pytest.mark.xdist_group("upkeep")  # one server for all tests


@pytest.fixture(scope="module")
def busy_server() -> Iterator[Cluster]:
    with one_process(*SOON) as cluster:
        yield cluster


@pytest.fixture
async def client(busy_server: Cluster) -> AsyncIterator[Client]:
    async with connected(busy_server.address) as client:
        yield client


async def earliest(client: Client, topic_id: str) -> int:
    request = leader.ListOffsetsRequest()
    request.partitions.add(topic_id=topic_id, partition=0, timestamp=-2)
    return (await client.admin.ListOffsets(request, timeout=TIMEOUT)).partitions[0].offset


@pytest.mark.parametrize("limit", [65_536, 3_000])
async def test_a_small_topic_shrinks_to_its_size(client: Client, limit: int) -> None:
    """To whole batches, of ten records and a little more than 10,000 bytes here; Kafka: to whole segments."""
    topic, topic_id = await client.create(retention_bytes=str(limit), segment_bytes="16384")
    for _ in range(30):
        await client.publish(topic, ["x" * 1000] * 10)
    kept = limit // 10_000 + 1

    async def shrunk() -> bool:
        return await earliest(client, topic_id) == 300 - 10 * kept

    await eventually(shrunk)


async def test_topics_without_a_size_shrink_to_the_default_of_the_cluster(client: Client) -> None:
    (topic, topic_id), (larger, larger_id) = await client.create(), await client.create(retention_bytes="-1")
    for name in (larger, topic):
        for _ in range(10):
            await client.publish(name, ["x" * 1000] * 10)

    async def shrunk() -> bool:
        return await earliest(client, topic_id) == 30

    assert await earliest(client, topic_id) == 0
    await client.configure_broker("log.retention.bytes", "65536")
    try:
        await eventually(shrunk)
        assert await earliest(client, larger_id) == 0
    finally:
        await client.configure_broker("log.retention.bytes", "-1")


async def test_old_records_are_deleted_beside_newer_ones(client: Client) -> None:
    topic, topic_id = await client.create(retention_ms="60000")
    now = round(time.time() * 1000)
    for timestamp in (now - 3_600_000, now - 120_000, now, now - 120_000):
        record = produce.PublishRecord(text="x", timestamp_ms=timestamp)
        await client.produce.Publish(produce.PublishRequest(topic=topic, records=[record]), timeout=TIMEOUT)

    async def old_ones_are_gone() -> bool:
        return await earliest(client, topic_id) == 2

    await eventually(old_ones_are_gone)


async def test_records_finished_by_every_group_are_deleted(client: Client) -> None:
    topic, topic_id = await client.create(retention_policy="consumed")
    group_id = await client.group()
    for _ in range(3):
        await client.publish(topic, ["x"] * 10)
    held = await client.acquire_all(group_id, topic, 15, "member")
    assert await client.acknowledge(group_id, "member", held) == [0] * 15

    async def the_first_batch_is_gone() -> bool:
        return await earliest(client, topic_id) == 10

    await eventually(the_first_batch_is_gone)


async def test_records_of_an_idle_session_are_redelivered(client: Client) -> None:
    """Long before their locks time out, and although no other member fetches over a session."""
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("idle")
    await client.heartbeat(group_id, member, 0, [topic])
    await client.publish(topic, ["a", "b"])
    fetched = share.ShareFetchRequest(group_id=group_id, member_id=member, max_records=10, max_wait_ms=10_000)
    fetched.topics.add(topic_id=topic_id).partitions.add(partition_index=0)
    (part,) = (await client.share.ShareFetch(fetched, timeout=TIMEOUT)).responses[0].partitions
    assert [(run.first_offset, run.last_offset) for run in part.acquired_records] == [(0, 1)]
    again = await client.acquire_all(group_id, topic, 2, "another")
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2)]
