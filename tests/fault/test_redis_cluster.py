"""A Redis Cluster of three primaries and three replicas under a running process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sharebroker_server.leases import names
from sharebroker_server.redis_link.keys import Keys
from tests.durability.scene import accepted, acquired, retriable
from tests.support.client import Client, connected
from tests.testkit.brokers import Serve
from tests.testkit.redis_cluster import RedisCluster, redis_cluster
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("redis-cluster")

PARTITIONS = 6
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
SHORT_LOCKS = ("--set", "group.share.min.record.lock.duration.ms=1000")
WAIT = ("--set", "redis.wait.replicas=1", "--set", "redis.wait.timeout.ms=1000")


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster("valkey", 3, 3, *DURABLE) as cluster:
        yield cluster


@asynccontextmanager
async def serving(tmp_path: Path, cluster: RedisCluster, *options: str) -> AsyncIterator[Serve]:
    serve = Serve(tmp_path, ["--redis", cluster.url, *options])
    await asyncio.to_thread(serve.start)
    try:
        yield serve
    finally:
        assert await asyncio.to_thread(serve.stop) == 0


async def everywhere(client: Client, topic: str, text: str) -> dict[str, tuple[int, int]]:
    """Publishes a record to each partition as soon as that succeeds; returns the partition of each text."""
    found: dict[str, tuple[int, int]] = {}
    for partition in range(PARTITIONS):

        async def done(partition: int = partition) -> bool:
            with retriable():
                [place] = await client.publish(
                    topic, [f"{text}{partition}"], partition=partition, timeout=2.0
                )
                found[f"{text}{partition}"] = place
                return True
            return False

        await eventually(done, 60.0)
    return found


async def consume_all(client: Client, topic: str, group_id: str, texts: set[str]) -> None:
    """Acquires and accepts records until all of these texts were accepted."""
    remaining = set(texts)

    async def done() -> bool:
        with retriable():
            held = (await client.acquire(group_id, topic, 20, member="worker", wait=0.5)).records
            if held:
                await accepted(client, group_id, "worker", held)
                remaining.difference_update(record.text for record in held)
        return not remaining

    await eventually(done, 60.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_process_continues_after_a_cluster_fail_over(tmp_path: Path, cluster: RedisCluster) -> None:
    async with serving(tmp_path, cluster, *WAIT, *SHORT_LOCKS) as serve, connected(serve.address) as client:
        topic, topic_id = await client.create(PARTITIONS)
        group_id = await client.group(share_record_lock_duration_ms="4000")
        before = await everywhere(client, topic, "before")
        await consume_all(client, topic, group_id, set(before))
        held = await everywhere(client, topic, "held")
        kept = await client.acquire_all(group_id, topic, len(held), "early")
        victim = cluster.primary_of(Keys().log(names.partition(topic_id, 0)))
        cluster.nodes[victim].kill()
        moved = Keys().log(names.partition(topic_id, 0))
        await eventually(lambda: cluster.primary_of(moved) != victim, 60.0)
        await asyncio.to_thread(cluster.nodes[victim].restart)  # as a replica: WAIT needs one
        after = await everywhere(client, topic, "after")
        assert all(offset > held[f"held{partition}"][1] for partition, offset in after.values())
        found = await acquired(client, group_id, topic, len(held) + len(after))
        assert set(found) == set(held) | set(after)
        assert len(kept) == len(held)
        for partition in range(PARTITIONS):
            finished = await client.finished(group_id, topic_id, partition)
            assert finished == set(range(held[f"held{partition}"][1]))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_process_continues_while_slots_move(tmp_path: Path, cluster: RedisCluster) -> None:
    async with serving(tmp_path, cluster) as serve, connected(serve.address) as client:
        topic, topic_id = await client.create(PARTITIONS)
        group_id = await client.group()
        first = await everywhere(client, topic, "first")
        log = Keys().log(names.partition(topic_id, 0))
        old = cluster.primary_of(log)
        await asyncio.to_thread(cluster.move, log, (old + 1) % 3)
        second = await everywhere(client, topic, "second")
        assert cluster.primary_of(log) != old
        await consume_all(client, topic, group_id, set(first) | set(second))
        for partition in range(PARTITIONS):
            finished = await client.finished(group_id, topic_id, partition)
            assert finished == set(range(second[f"second{partition}"][1] + 1))
