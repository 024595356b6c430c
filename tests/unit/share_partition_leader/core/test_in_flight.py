"""Runs of records: located, split, coalesced, and dropped as the start offset advances."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, RecordState
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    LoadedState,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import (
    ACQUIRED,
    Batch,
    InFlight,
    Lock,
    Run,
    Transition,
    tokens_of,
)
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    RELEASE,
    RENEW,
    ack,
    acks,
    check,
    done,
    fetch,
    opened,
    picture,
    ranges,
    show,
)

UNIT = Batch(0, 99)
LOCK = Lock("m", 1, 30.0)


def window(*runs: tuple[int, int, RecordState], start: int = 0) -> InFlight:
    in_flight = InFlight(start)
    for first, last, state in runs:
        in_flight.append(Run(first, last, state, 1, UNIT, LOCK if state is ACQUIRED else None))
        in_flight.complete_count += last - first + 1 if state >= ACKNOWLEDGED else 0
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
    in_flight.runs[0].unlock(AVAILABLE)
    in_flight.mark_available(0)
    assert in_flight.first_available() == 0


@pytest.mark.parametrize(("now", "lost"), [(0.0, 0), (29.9, 0), (30.0, 1), (30.1, 1), (1e9, 1)])
def test_lock_times_out_at_its_deadline(now: float, lost: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(now)
    check(share)
    assert len(expired.lost) == lost
    assert (expired.transition is not None) is bool(lost)
    assert picture(share) == ("0-9 available 1" if lost else "0-9 acquired 1")


def test_a_reload_issues_no_token_twice() -> None:
    tokens, settings = tokens_of(3), SharePartitionSettings()
    seen: list[int] = []
    for _ in range(3):
        share = SteppedPartition(settings, LoadedState(1, 3, 0), tokens)
        [acquired] = share.acquire(AcquireRequest("m1", 10, 10), 0, [(0, 9)], 0.0)
        late = AckBatch(0, 9, (RELEASE,), seen[-1]) if seen else None
        if late is not None:
            with pytest.raises(KafkaError) as refused:
                share.acknowledge("m1", [late], 0.0)
            assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
        seen.append(acquired.token)
    assert seen == [(3 << 32) + number for number in (1, 2, 3)]


def test_lost_lock_has_holder_token_and_records() -> None:
    share = opened()
    token = fetch(share, "0-9", "m1", now=0.0)[0].token
    ack(share, "5")
    lost = share.expire(30.0).lost
    assert lost == (("m1", token, 0, 4, 1, AVAILABLE), ("m1", token, 6, 9, 1, AVAILABLE))


def test_lock_timeout_is_written_like_a_release() -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    fetch(share, "10-19", "m2", now=10.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    assert show(done(share, expired.transition)) == "0: 0-9 available 1"


def test_lock_timeout_at_the_delivery_limit_archives_and_moves_the_spso() -> None:
    share = opened(stored="0-4 available 4")
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    assert [x.state for x in expired.lost] == [ARCHIVED]
    assert expired.transition is not None
    assert show(share.write([expired.transition])) == "1:"
    assert share.start_offset == 1


def test_archived_record_after_an_acquired_one_is_counted() -> None:
    share = opened(stored="0-4 available 4")
    fetch(share, "0-4", now=0.0)
    fetch(share, "0-4", now=10.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    fetch(share, "0-4", now=35.0)
    share.expire(40.0)
    assert share.write([expired.transition]).start_offset == 2


def test_failed_write_of_a_lock_timeout_is_ignored() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    share.complete([expired.transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert picture(share) == "0-9 available 1"
    assert ranges(fetch(share, "0-9", now=31.0)) == "0-9 x2"


def test_locks_time_out_in_order_of_their_deadlines() -> None:
    share = opened()
    for number in range(4):
        fetch(share, [(number * 10, number * 10 + 9)], f"m{number}", now=float(number))
    seen = []
    while (deadline := share.next_deadline()) is not None:
        seen.append((deadline, [x.member for x in share.expire(deadline).lost]))
        check(share)
    assert seen == [(30.0, ["m0"]), (31.0, ["m1"]), (32.0, ["m2"]), (33.0, ["m3"])]


def test_several_locks_due_at_once_end_together() -> None:
    share = opened()
    for number in range(3):
        fetch(share, [(number * 10, number * 10 + 9)], f"m{number}", now=float(number))
    assert [x.member for x in share.expire(31.5).lost] == ["m0", "m1"]
    assert share.next_deadline() == 32.0


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_next_deadline_may_be_early_but_is_finally_none(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    ack(share, "0-9", kind)
    assert share.expire(share.next_deadline() or 0.0) == ((), None)
    assert share.next_deadline() is None


def test_later_lock_with_an_earlier_deadline_times_out_first() -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    share.settings = SharePartitionSettings(lock_duration=5.0)
    fetch(share, "10-19", "m2", now=1.0)
    assert share.next_deadline() == 6.0
    assert [x.member for x in share.expire(6.0).lost] == ["m2"]
    assert share.next_deadline() == 30.0


@pytest.mark.parametrize("now", [29.0, 30.0, 100.0])
def test_acknowledgement_before_the_timeout_is_processed_is_accepted(now: float) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    assert ack(share, "0-9", now=now) is not None
    assert share.expire(200.0).lost == ()


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, RENEW])
def test_acknowledgement_after_the_lock_timeout_is_rejected(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.expire(30.0)
    with pytest.raises(KafkaError, match="lock lost"):
        share.acknowledge("m1", acks("0-9", kind), 30.0)


# --- KAFKA-19476: a lock timeout while a change waits for its write


def test_lock_with_a_pending_transition_does_not_time_out() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("0-4"), 29.0)
    assert pending is not None
    assert [(x.first, x.last) for x in share.expire(30.0).lost] == [(5, 9)]
    assert share.next_deadline() is None
    share.complete([pending])
    assert picture(share) == "5-9 available 1"
    assert share.next_deadline() is None


@pytest.mark.parametrize(
    ("stored", "window", "state"),
    [("", "0-4 available 1", AVAILABLE), ("0-4 available 4", "1-4 available 4", ARCHIVED)],
)
def test_lock_due_during_a_failed_write_times_out_after_it(stored: str, window: str, state: int) -> None:
    share = opened(stored=stored)
    fetch(share, "0-4", now=0.0)
    pending = share.acknowledge("m1", acks("0-4" if not stored else "0"), 29.0)
    assert pending is not None
    assert share.expire(31.0).lost == ()
    share.complete([pending], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    check(share)
    assert share.next_deadline() == 30.0
    assert [x.state for x in share.expire(31.0).lost] == [state]
    assert picture(share) == window


def test_an_acknowledged_record_never_becomes_available_again() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("3"), 29.0)
    assert pending is not None
    share.expire(30.0)
    share.complete([pending])
    assert share.in_flight.runs[share.in_flight.locate(3)].state is ACKNOWLEDGED
    assert ranges(fetch(share, "0-9", now=31.0)) == "0-2 x2, 4-9 x2"


def test_deleted_record_has_no_timer() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.move_log_start(10)
    assert share.expire(30.0).lost == ()
    assert share.next_deadline() is None
