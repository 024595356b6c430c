"""KAFKA-20505: an acknowledgement completed a waiting fetch, came back to its own lock, and stood still."""

from __future__ import annotations

import asyncio

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.values import AcquireRequest
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from tests.scenarios.kafka_bugs.telling import fails_without, given
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import ACCEPT, RELEASE, World, code


async def released_records_complete_a_waiting_fetch(world: World) -> None:
    await world.publish(10)
    assert await given(world, "m1") == list(range(10))
    waiting = asyncio.create_task(given(world, "m2", max_wait_ms=20_000))
    await settle()
    async with asyncio.timeout(10.0):
        assert code(await world.acknowledge((0, 9, RELEASE), member="m1")) is ErrorCode.NONE
        assert await waiting == list(range(10))


async def test_released_records_complete_a_waiting_fetch(world: World) -> None:
    await released_records_complete_a_waiting_fetch(world)


async def test_without_the_wake_up_the_fetch_stands_still(world: World) -> None:
    wake = (ShareGroupPartition, "wake", lambda _: None)
    await fails_without(wake, released_records_complete_a_waiting_fetch, world)


async def test_who_hears_of_an_acknowledgement_may_acquire_and_acknowledge_at_once(world: World) -> None:
    """The way that stood still in Kafka: from the completion back into the share-partition."""
    for _ in range(10):
        await world.publish(1)
    share_partition = await world.share_partition()
    accepted: list[int] = []
    told = asyncio.Event()

    def done(error: KafkaError | None) -> None:
        assert error is None
        taken = share_partition.acquire(AcquireRequest("m1", 1, 1))
        if not isinstance(taken, Fetched):
            told.set()
            return
        offset = taken.acquired[0].first
        accepted.append(offset)
        share_partition.acknowledge("m1", [AckBatch(offset, offset, (ACCEPT,))], done)

    done(None)
    async with asyncio.timeout(10.0):
        await told.wait()
    assert accepted == list(range(10))
    assert await world.start_offset() == 10
