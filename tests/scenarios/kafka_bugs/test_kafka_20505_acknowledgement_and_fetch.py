"""KAFKA-20505: an acknowledgement completed a waiting fetch, returned to its own lock, and deadlocked."""

from __future__ import annotations

import asyncio

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.events import Acknowledge, AcquireRequest
from sharebroker_server.share_partition_leader.share_partition.reading import Fetched
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from tests.scenarios.kafka_bugs.safeguards import acquired, fails_without
from tests.unit.share_partition_leader.harness import ACCEPT, RELEASE, Harness, code
from tests.unit.share_partition_leader.virtual_time import settle


async def released_records_complete_a_waiting_fetch(harness: Harness) -> None:
    await harness.publish(10)
    assert await acquired(harness, "m1") == list(range(10))
    waiting = asyncio.create_task(acquired(harness, "m2", max_wait_ms=20_000))
    await settle()
    async with asyncio.timeout(10.0):
        assert code(await harness.acknowledge((0, 9, RELEASE), member="m1")) is ErrorCode.NONE
        assert await waiting == list(range(10))


async def test_released_records_complete_a_waiting_fetch(harness: Harness) -> None:
    await released_records_complete_a_waiting_fetch(harness)


async def test_without_the_wake_up_the_fetch_stalls(harness: Harness) -> None:
    wake = (ShareGroupPartition, "wake", lambda _: None)
    await fails_without(wake, released_records_complete_a_waiting_fetch, harness)


async def test_member_may_acquire_right_after_an_acknowledgement(harness: Harness) -> None:
    """The path that deadlocked in Kafka: from the completion back into the share-partition."""
    for _ in range(10):
        await harness.publish(1)
    share_partition = await harness.share_partition()
    accepted: list[int] = []
    notified = asyncio.Event()

    def done(error: KafkaError | None) -> None:
        assert error is None
        taken = share_partition.acquire(AcquireRequest("m1", 1, 1))
        if not isinstance(taken, Fetched):
            notified.set()
            return
        offset = taken.acquired[0].first
        accepted.append(offset)
        share_partition.handle(Acknowledge("m1", [AckBatch(offset, offset, (ACCEPT,))], done))

    done(None)
    async with asyncio.timeout(10.0):
        await notified.wait()
    assert accepted == list(range(10))
    assert await harness.start_offset() == 10
