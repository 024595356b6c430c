"""KAFKA-18084: lock timers remained when their records were finished, and used up the memory."""

from __future__ import annotations

import asyncio
from typing import Any

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from tests.scenarios.kafka_bugs.safeguards import acquired, fails_without
from tests.unit.share_partition_leader.harness import ACCEPT, Harness, code
from tests.unit.share_partition_leader.virtual_time import now

RECORDS = 20


def timers_of(share_partition: ShareGroupPartition) -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(
        not timer.cancelled() and timer._callback == share_partition._fire for timer in loop._scheduled
    )


async def finished_records_leave_no_timers(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    for offset in range(RECORDS):
        await harness.publish(1)
        assert await acquired(harness, "m1") == [offset]
        assert code(await harness.acknowledge((offset, offset, ACCEPT))) is ErrorCode.NONE
    assert timers_of(share_partition) == 1, "one for all, and early"
    share_partition.retire()
    assert timers_of(share_partition) == 0


async def test_finished_records_leave_no_timers(harness: Harness) -> None:
    await finished_records_leave_no_timers(harness)


def one_more(self: ShareGroupPartition, deadline: float) -> None:
    asyncio.get_running_loop().call_later(deadline - now(), self._fire)


async def test_timer_per_lock_leaks(harness: Harness) -> None:
    await fails_without((ShareGroupPartition, "_arm", one_more), finished_records_leave_no_timers, harness)
