"""Scheduled records in the window: they wait, block no others, and are delivered at their time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.model import AcquireMode
from sharebroker_server.share_partition_leader.core.acquire import leading
from sharebroker_server.share_partition_leader.core.events import (
    Acquire,
    AcquireRequest,
    Loaded,
    LoadedState,
    Scheduled,
    SharePartitionSettings,
    TimerFired,
)
from sharebroker_server.share_partition_leader.core.in_flight import WAITS_AT_ONCE
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    LIMITED,
    OPTIMIZED,
    RELEASE,
    ack,
    check,
    log_of,
    opened,
    picture,
    ranges,
)


def read(
    share: SteppedPartition,
    log: str,
    scheduled: Sequence[Scheduled],
    *,
    most: int = 500,
    mode: AcquireMode = OPTIMIZED,
    hidden: str = "",
    now: float = 0.0,
) -> str:
    """Acquires as the shell does, until something is acquired; returns the ranges."""
    offset = share.next_fetch_offset()
    while log_batches := [piece for piece in log_of(log) if piece[1] >= offset]:
        request = AcquireRequest("m1", most, 500, mode)
        event = Acquire(request, offset, log_batches, log_of(hidden), (), scheduled)
        acquired = share.handle(event, now).acquired
        check(share)
        if acquired:
            return ranges(acquired)
        before, offset = offset, share.next_fetch_offset()
        assert offset > before
    return ""


@pytest.mark.parametrize(
    ("offset", "log", "scheduled", "batches"),
    [
        (0, "0-9", [(1, 9, 5)], []),
        (0, "0-9", [(0, 3, 5)], [(0, 3)]),
        (2, "0-9", [(0, 3, 5)], [(2, 3)]),
        (4, "0-9", [(0, 3, 5)], []),
        (0, "0-4 5-9", [(0, 3, 5), (4, 4, 6), (5, 6, 7), (8, 8, 7)], [(0, 4), (5, 6)]),
        (0, "3-4", [(3, 4, 5)], [(3, 4)]),
        (0, "0-1 4-5", [(0, 1, 5), (4, 5, 5)], [(0, 1)]),
    ],
)
def test_leading_batches_end_before_the_first_record_that_does_not_wait(
    offset: int, log: str, scheduled: list[Scheduled], batches: list[tuple[int, int]]
) -> None:
    assert list(leading(scheduled, offset, log_of(log))) == batches


@pytest.mark.parametrize("mode", AcquireMode)
def test_a_scheduled_record_waits_and_the_others_are_delivered(mode: AcquireMode) -> None:
    share = opened()
    scheduled = [(2, 3, 5000), (7, 7, 6000)]
    assert read(share, "0-9", scheduled, mode=mode) == "0-1 x1, 4-6 x1, 8-9 x1"
    assert picture(share) == (
        "0-1 acquired 1, 2-3 available 0 from 5, 4-6 acquired 1, 7 available 0 from 6, 8-9 acquired 1"
    )
    assert (share.in_flight.locked, share.in_flight.waiting, share.counts.acquired) == (7, 3, 7)
    assert share.next_deadline() == 5.0
    ack(share, "0-1 4-6 8-9")
    assert not share.handle(TimerFired(), 4.999).wake
    assert share.handle(TimerFired(), 5.0).wake
    assert read(share, "0-9", scheduled, mode=mode, now=5.0) == "2-3 x1"
    share.handle(TimerFired(), 6.0)
    assert read(share, "0-9", scheduled, mode=mode, now=6.0) == "7 x1"
    ack(share, "2-3 7")
    assert share.start_offset == 10


@pytest.mark.parametrize("most", [1, 500])
def test_thousands_of_scheduled_records_are_passed_in_one_step(most: int) -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=100))
    scheduled = [(offset, offset, 5000 + offset) for offset in range(5000)]
    log_batches = [(first, first + 99) for first in range(0, 5100, 100)]
    request = AcquireRequest("m1", most, 10, OPTIMIZED)
    effects = share.handle(Acquire(request, 0, log_batches, (), (), scheduled), 0.0)
    assert (list(effects.acquired), effects.deadline) == ([], 5.0)
    assert share.fetch_offset(0, 5100) == 5000
    assert share.in_flight.waiting == 5000
    check(share)


def test_records_that_are_due_together_are_delivered_in_portions() -> None:
    share = opened()
    log = " ".join(f"{first}-{first + 9}" for first in range(0, 1000, 10))
    assert read(share, log, [(0, 999, 5000)], most=10) == ""
    share.handle(TimerFired(), 5.0)
    assert read(share, log, [(0, 999, 5000)], most=10, now=5.0) == "0-499 x1"
    assert read(share, log, [(0, 999, 5000)], most=10, mode=LIMITED, now=5.0) == "500-509 x1"


def test_a_time_in_the_past_has_no_effect() -> None:
    share = opened()
    assert read(share, "0-9", [(0, 4, 5000), (6, 6, 4000)], now=5.0) == "0-9 x1"


def test_hidden_records_are_archived_before_their_time() -> None:
    share = opened()
    assert read(share, "0-1 2-3 4-5", [(1, 4, 5000)], hidden="2-3") == "0 x1, 5 x1"
    assert picture(share) == (
        "0 acquired 1, 1 available 0 from 5, 2-3 archived 1, 4 available 0 from 5, 5 acquired 1"
    )
    share = opened()
    assert read(share, "0 1 2 3", [(0, 2, 5000)], hidden="1") == "3 x1"
    assert picture(share) == "0 available 0 from 5, 1 archived 1, 2 available 0 from 5, 3 acquired 1"


def test_a_new_leader_reads_the_times_again_and_corrects_its_clock() -> None:
    share = SteppedPartition(
        SharePartitionSettings(), LoadedState(3, 8, 0, clock_offset_ms=-1000.0, batches=())
    )
    share.handle(Loaded(), 0.0)
    assert read(share, "0-9", [(0, 3, 5000)], now=5.5) == "4-9 x1"
    assert share.next_deadline() == 6.0


def test_a_gap_in_the_stored_state_waits_again() -> None:
    share = opened(0, "0-1 available 1, 4-5 acknowledged 1")
    assert read(share, "0-9", [(2, 3, 5000)]) == "0-1 x2, 6-9 x1"
    ack(share, "0-1 6-9")
    assert share.start_offset == 2
    share.handle(TimerFired(), 5.0)
    assert read(share, "0-9", [(2, 3, 5000)], now=5.0) == "2-3 x1"


def test_a_released_record_does_not_wait_for_its_time_again() -> None:
    share = opened()
    read(share, "0-1", [(0, 1, 5000)])
    share.handle(TimerFired(), 5.0)
    assert read(share, "0-1", [(0, 1, 5000)], now=5.0) == "0-1 x1"
    ack(share, "0", RELEASE, now=5.0)
    assert read(share, "0-1", [(0, 1, 5000)], now=5.0) == "0 x2"


def test_many_waits_end_in_several_steps() -> None:
    share, number = opened(), 3 * WAITS_AT_ONCE // 2
    scheduled = [(offset, offset, 5000) for offset in range(number)]
    assert read(share, f"0-{number - 1}", scheduled) == ""
    first = share.handle(TimerFired(), 5.0)
    assert (share.in_flight.ready, first.wake, first.deadline) == (WAITS_AT_ONCE, True, 5.0)
    second = share.handle(TimerFired(), 5.0)
    assert (share.in_flight.waiting, second.wake, second.deadline) == (0, True, None)
    check(share)
