"""Runs of records: located, split, coalesced, and dropped as the start offset advances."""

from __future__ import annotations

from time import process_time

import pytest

from sharebroker_protocol.model import RecordState
from sharebroker_server.share_partition_leader.core.in_flight import WAITS_AT_ONCE, InFlight
from sharebroker_server.share_partition_leader.core.runs import ACQUIRED, Batch, Lock, Run, Transition
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent
from tests.unit.share_partition_leader.core.support import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
)

UNIT = Batch(0, 99)
LOCK = Lock("m", 1, 30.0)


def window(*runs: tuple[int, int, RecordState], start: int = 0) -> InFlight:
    in_flight = InFlight(start)
    for first, last, state in runs:
        run = Run(first, last, state, 1, UNIT, LOCK if state is ACQUIRED else None)
        in_flight.append(run)
        in_flight.tally(run, run.size)
    in_flight.mark_available(start)
    return in_flight


def shown(in_flight: InFlight) -> list[tuple[int, int]]:
    assert in_flight.firsts == [run.first for run in in_flight.runs]
    return [(run.first, run.last) for run in in_flight.runs]


@pytest.mark.parametrize(("offset", "index"), [(0, 0), (4, 0), (5, 1), (7, 1), (9, 1), (10, 2)])
def test_locate_finds_the_run_of_an_offset_or_the_next(offset: int, index: int) -> None:
    assert window((0, 4, ACQUIRED), (7, 9, ACQUIRED)).locate(offset) == index


def test_split_at_makes_the_range_a_run_of_its_own() -> None:
    in_flight = window((0, 9, ACQUIRED))
    assert in_flight.split_at(0, 3, 6) == 1
    assert shown(in_flight) == [(0, 2), (3, 6), (7, 9)]
    assert in_flight.split_at(1, 0, 99) == 1
    assert shown(in_flight) == [(0, 2), (3, 6), (7, 9)]


def test_equal_neighbours_coalesce_and_pending_ones_do_not() -> None:
    in_flight = window((0, 9, ACQUIRED))
    in_flight.split_at(0, 3, 6)
    in_flight.runs[1].pending = Transition()
    in_flight.coalesce(list(in_flight.runs))
    assert shown(in_flight) == [(0, 2), (3, 6), (7, 9)]
    in_flight.runs[1].pending = None
    in_flight.coalesce([in_flight.runs[1], Run(50, 51, ACQUIRED, 1, UNIT, LOCK)])
    assert shown(in_flight) == [(0, 9)]


def test_a_changed_run_absorbs_all_equal_runs_that_follow() -> None:
    singles = [(offset, offset, ACKNOWLEDGED) for offset in range(5, 10)]
    in_flight = window((0, 0, ACQUIRED), (1, 4, ACKNOWLEDGED), *singles, (12, 12, ACKNOWLEDGED))
    changed = in_flight.runs[2:7]
    in_flight.coalesce(changed[:1])
    assert shown(in_flight) == [(0, 0), (1, 9), (12, 12)]
    in_flight.coalesce(changed)
    assert shown(in_flight) == [(0, 0), (1, 9), (12, 12)]


def test_the_start_offset_advances_over_terminal_runs() -> None:
    in_flight = window((0, 4, ACKNOWLEDGED), (5, 6, ARCHIVED), (7, 9, ACQUIRED))
    assert in_flight.advance()
    assert (in_flight.start, in_flight.end, in_flight.complete_count) == (7, 9, 0)
    assert not in_flight.advance()


def test_empty_window_starts_after_the_last_record() -> None:
    in_flight = window((0, 4, ACKNOWLEDGED))
    in_flight.advance()
    assert (in_flight.start, in_flight.end, in_flight.after_end, in_flight.count) == (5, 5, 5, 0)


def test_dropping_below_an_offset_clips_the_run_that_contains_it() -> None:
    in_flight = window((0, 4, ACKNOWLEDGED), (5, 9, AVAILABLE))
    in_flight.drop_before(7)
    assert (shown(in_flight), in_flight.start) == ([(7, 9)], 7)
    in_flight.drop_before(20)
    assert (shown(in_flight), in_flight.start, in_flight.end) == ([], 20, 20)


def test_archiving_skips_runs_in_other_states() -> None:
    in_flight = window((0, 4, AVAILABLE), (5, 9, ACQUIRED))
    in_flight.archive(3, 7, RecordEvent.COMPACT)
    assert [(run.first, run.last, run.state) for run in in_flight.runs] == [
        (0, 2, AVAILABLE),
        (3, 4, ARCHIVED),
        (5, 9, ACQUIRED),
    ]
    assert in_flight.complete_count == 2


def test_undone_runs_are_available_without_the_delivery() -> None:
    in_flight = window((0, 4, ACQUIRED))
    in_flight.undo(list(in_flight.runs))
    (run,) = in_flight.runs
    assert (run.state, run.delivery_count, run.lock) == (AVAILABLE, 0, None)
    assert in_flight.first_available() == 0


def test_first_available_offset_is_searched_again_after_its_acquisition() -> None:
    in_flight = window((0, 4, ACQUIRED), (5, 9, AVAILABLE))
    assert in_flight.first_available() == 5
    in_flight.runs[1].state = ACQUIRED
    assert in_flight.first_available() is None
    in_flight.undo(in_flight.runs[:1])
    assert in_flight.first_available() == 0


def test_an_acknowledgement_is_split_by_run_and_start_offset() -> None:
    in_flight = window((5, 9, ACQUIRED), (10, 14, AVAILABLE), start=5)
    assert in_flight.split_by_run(3, 12) == [(3, 4), (5, 9), (10, 12)]
    assert in_flight.split_by_run(6, 7) == [(6, 7)]


def test_a_lock_finds_its_runs_in_the_offsets_it_covers() -> None:
    in_flight = window((0, 4, ACQUIRED), (5, 9, AVAILABLE), (10, 14, ACQUIRED), (15, 19, ACQUIRED))
    lock = Lock("m", 2, 30.0)
    lock.cover(0, 14)
    in_flight.runs[0].lock = in_flight.runs[2].lock = lock
    assert [run.first for run in in_flight.under(lock)] == [0, 10]


@pytest.mark.slow
def test_waits_of_many_runs_end_without_a_scan_from_the_start() -> None:
    """40,000 runs of one time, in steps; a scan of all runs before each would take seconds."""
    in_flight = InFlight(0)
    runs = [Run(offset, offset, AVAILABLE, 1, Batch(offset, offset)) for offset in range(40_000)]
    for run in runs:
        run.not_before_ms = 1000
    in_flight.fill(runs)
    begun = process_time()
    while in_flight.end_waits(1000.0):
        assert in_flight.ready % WAITS_AT_ONCE == 0
    assert process_time() - begun < 4.0
    assert (in_flight.waiting, in_flight.ready) == (0, 40_000)
