"""Movement of coordinators to another process after a kill (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, poll, poll_records
from tests.testkit.brokers import Cluster, Serve, four_processes

pytestmark = pytest.mark.xdist_group("coordinator movement")  # its tests share a cluster


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Starts four processes for this module, which its tests kill."""
    with four_processes() as cluster:
        yield cluster


@pytest.fixture
async def harness(own_cluster: Cluster) -> AsyncIterator[Harness]:
    async with Harness(own_cluster.address) as harness:
        yield harness


async def replace(process: Serve) -> None:
    """Kills a process and starts its successor."""
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)


async def test_lag_on_group_coordinator_movement(own_cluster: Cluster, harness: Harness) -> None:
    await lag_stays(harness, own_cluster.process("group-coordinator"))


async def test_lag_on_share_coordinator_movement(own_cluster: Cluster, harness: Harness) -> None:
    await lag_stays(harness, own_cluster.process("share-coordinator"))


async def lag_stays(harness: Harness, process: Serve) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(10)
    records = await poll_records(consumer, 10)
    accept_all(records[:4])
    records[9].reject()
    assert [result.error for result in await consumer.commit()] == [None] * 5
    before = await harness.offset(group)
    assert before is not None
    assert (before.start_offset, before.lag) == (4, 5)
    await replace(process)
    assert await harness.offset(group) == before
    accept_all(records[4:9])
    assert [result.error for result in await consumer.commit()] == [None] * 5
    assert await harness.lag(group) == 0


async def test_share_consumer_after_coordinator_movement(own_cluster: Cluster, harness: Harness) -> None:
    """Everything published is consumed while the share coordinator moves; accepted records stay accepted."""
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    accepted: list[int] = []

    async def publish() -> None:
        for _ in range(20):
            await harness.produce(10)

    async def consume() -> None:
        while len(set(accepted)) < 200:
            records = await poll(consumer)
            accept_all(records)
            await consumer.commit()
            for record in records:
                assert record.acknowledgement is not None
                if record.acknowledgement.error is None:
                    accepted.append(record.offset)

    async with asyncio.timeout(60), asyncio.TaskGroup() as work:
        work.create_task(consume())
        work.create_task(publish())
        await asyncio.sleep(0)
        work.create_task(replace(own_cluster.process("share-coordinator")))
    assert sorted(accepted) == list(range(200))
    assert await is_idle(consumer)
