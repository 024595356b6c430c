"""KAFKA-19476: a lock timed out while an acceptance waited for its write: redelivered, or lost."""

from __future__ import annotations

import asyncio
from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core import locks, share_partition
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from sharebroker_server.share_partition_leader.core.locks import Locks
from tests.scenarios.kafka_bugs.safeguards import acquired, fails_without
from tests.unit.share_partition_leader.harness import ACCEPT, Harness, code
from tests.unit.share_partition_leader.virtual_time import settle

LONGER_THAN_A_LOCK = 31.0


async def start_accept_that_outlives_its_lock(harness: Harness) -> asyncio.Task[Any]:
    """Starts an acceptance of 0 to 4, out of 10 records, that is in flight for longer than their lock."""
    await harness.publish(10)
    assert await acquired(harness, "m1") == list(range(10))
    harness.persister.open.clear()
    accepting = asyncio.create_task(harness.acknowledge((0, 4, ACCEPT), member="m1"))
    await settle()
    await asyncio.sleep(LONGER_THAN_A_LOCK)
    return accepting


async def assert_pending_records_are_not_redelivered(harness: Harness) -> None:
    accepting = await start_accept_that_outlives_its_lock(harness)
    assert await acquired(harness, "m2") == [5, 6, 7, 8, 9]
    harness.persister.open.set()
    assert code(await accepting) is ErrorCode.NONE
    assert await acquired(harness, "m3") == []


async def failed_acceptances_are_redelivered(harness: Harness) -> None:
    accepting = await start_accept_that_outlives_its_lock(harness)
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    harness.persister.open.set()
    assert code(await accepting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await settle()
    assert await acquired(harness, "m2", max_wait_ms=5_000) == list(range(10))


async def test_pending_records_are_not_redelivered(harness: Harness) -> None:
    await assert_pending_records_are_not_redelivered(harness)


async def test_records_of_a_failed_acknowledgement_are_redelivered(harness: Harness) -> None:
    await failed_acceptances_are_redelivered(harness)


def every_lock(self: Locks, settings: SharePartitionSettings, now: float, _: object) -> list[Any]:
    """Runs `expire` also for records whose transition waits for its write."""
    in_flight, self._heap = self._in_flight, []
    ended = [run for run in in_flight.runs if run.lock is not None and run.lock.deadline <= now]
    return [
        locks._time_out(in_flight, run, run.lock, settings, None) for run in ended if run.lock is not None
    ]


async def test_without_waiting_for_the_write_accepted_records_return(harness: Harness) -> None:
    await fails_without((Locks, "expire", every_lock), assert_pending_records_are_not_redelivered, harness)


async def test_without_a_roll_back_records_are_never_redelivered(harness: Harness) -> None:
    def discard(*_: object) -> None:
        pass

    await fails_without((share_partition, "roll_back", discard), failed_acceptances_are_redelivered, harness)
