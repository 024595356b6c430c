"""Decided transactions are completed: markers reach every partition, also after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.scenarios.group_coordinator.transaction_harness import Cluster, running
from tests.testkit.waiting import eventually


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def rejection(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as rejected:
        await call
    return rejected.value.code


async def test_request_waits_for_completion_of_the_last_transaction(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.open.clear()
        following = await process.end(producer)
        adding = asyncio.create_task(process.add(following, 1))
        again = asyncio.create_task(process.end(producer))
        await asyncio.sleep(0.02)
        assert not adding.done()
        assert not again.done()
        cluster.leaders.open.set()
        assert await adding == [ErrorCode.NONE]
        await asyncio.gather(again, return_exceptions=True)


async def test_request_waits_a_limited_time_for_completion(cluster: Cluster) -> None:
    async with running(cluster, wait=0.02) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.open.clear()
        following = await process.end(producer)
        assert await rejection(process.add(following, 1)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await rejection(process.init()) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_only_failed_leaders_get_markers_again(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0, 1)
        cluster.leaders.refuse[1] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await process.end(producer)
        await eventually(lambda: cluster.leaders.written)
        assert await process.states() == ["PrepareCommit"]
        cluster.leaders.failures += [
            KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            RuntimeError("a bug"),
        ]
        cluster.leaders.refuse.clear()
        await eventually(lambda: len(cluster.leaders.written) == 2)
        assert [row[0] for row in cluster.leaders.written] == [0, 1]


async def test_next_owner_completes_decided_transactions(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.refuse[0] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        following = await process.end(producer)
    assert not cluster.leaders.written
    cluster.leaders.refuse.clear()
    async with running(cluster, node=2) as process:
        await eventually(lambda: cluster.leaders.written)
        assert cluster.leaders.written[0][:3] == (0, 1, True)
        assert await process.add(following, 1) == [ErrorCode.NONE]
        assert await process.end(following) == (producer[0], 2)
        await eventually(lambda: len(cluster.leaders.written) == 2)
        first, second = (row[3] for row in cluster.leaders.written)
        assert first == second > 1
