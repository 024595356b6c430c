"""Acquisition of new records: limits, batch sizes, and growth of the window."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import AckBatch, AcquireMode
from sharebroker_server.share_partition_leader.core.events import AcquireRequest, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.in_flight import MAX_WIDTH, InFlight
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    LIMITED,
    OPTIMIZED,
    RELEASE,
    ack,
    acks,
    check,
    done,
    fetch,
    log_of,
    offsets,
    opened,
    picture,
    ranges,
)

SINGLES = " ".join(str(offset) for offset in range(20))


@pytest.mark.parametrize(
    ("log", "most", "size", "expected"),
    [
        pytest.param("0-9", 500, 500, "0-9 x1", id="one batch"),
        pytest.param("0-9 10-19", 500, 500, "0-19 x1", id="two batches are one unit"),
        pytest.param("0", 1, 1, "0 x1", id="one record"),
        pytest.param("0-9", 1, 500, "0-9 x1", id="a batch is never cut"),
        pytest.param("0-9 10-19", 1, 500, "0-9 x1", id="the batch of the last requested record"),
        pytest.param("0-9 10-19", 10, 500, "0-9 x1", id="exactly a batch"),
        pytest.param("0-9 10-19", 11, 500, "0-19 x1", id="one more record acquires the next batch"),
        pytest.param("0-9 10-19 20-29", 20, 500, "0-19 x1", id="stops between batches"),
        pytest.param(SINGLES, 5, 500, "0-4 x1", id="singles are exact"),
        pytest.param(SINGLES, 500, 500, "0-19 x1", id="ten single batches are one unit"),
        pytest.param(SINGLES, 1, 1, "0 x1", id="raw wire: 1/1"),
        pytest.param(SINGLES, 5, 1, "0 x1, 1 x1, 2 x1, 3 x1, 4 x1", id="raw wire: 5/1"),
        pytest.param(SINGLES, 10, 3, "0-2 x1, 3-5 x1, 6-8 x1, 9 x1", id="units of three"),
        pytest.param("0-9 10-19 20-29", 500, 10, "0-9 x1, 10-19 x1, 20-29 x1", id="units on batch ends"),
        pytest.param("0-9 10-19 20-29", 500, 11, "0-19 x1, 20-29 x1", id="units at least as large"),
        pytest.param("0-9 10-19 20-29", 500, 29, "0-29 x1", id="last unit would be empty"),
        pytest.param("0-9 10-19 20-29", 500, 30, "0-29 x1", id="all fit in one unit"),
        pytest.param("0-99", 500, 10, "0-99 x1", id="a giant batch is never split"),
        pytest.param("0-99 100-101", 500, 10, "0-99 x1, 100-101 x1", id="split after a giant"),
        pytest.param("0-2 3-99 100", 500, 3, "0-2 x1, 3-99 x1, 100 x1", id="giant in the middle"),
        pytest.param("0-9 10-19", 500, 0, "0-9 x1, 10-19 x1", id="no size is size one"),
        pytest.param("0-9 10-19", 0, 500, "", id="none requested"),
        pytest.param("0-9 10-19", -1, 500, "", id="less than none requested"),
        pytest.param("", 500, 500, "", id="nothing read"),
    ],
)
def test_new_records_are_acquired_in_whole_batches(log: str, most: int, size: int, expected: str) -> None:
    share = opened()
    assert ranges(fetch(share, log, most=most, size=size)) == expected


@pytest.mark.parametrize(
    ("log", "most", "expected", "window"),
    [
        pytest.param("0-9", 1, "0 x1", "0 acquired 1", id="one of ten"),
        pytest.param("0-9", 9, "0-8 x1", "0-8 acquired 1", id="nine of ten"),
        pytest.param("0-9", 10, "0-9 x1", "0-9 acquired 1", id="all"),
        pytest.param("0-9", 500, "0-9 x1", "0-9 acquired 1", id="more than available"),
        pytest.param("0-9 10-19", 5, "0-4 x1", "0-4 acquired 1", id="first batch only"),
        pytest.param("0-9 10-19", 12, "0-11 x1", "0-11 acquired 1", id="into the second"),
        pytest.param(SINGLES, 5, "0-4 x1", "0-4 acquired 1", id="singles leave no tail"),
        pytest.param("0-9", 0, "", "", id="none requested"),
    ],
)
def test_new_records_are_acquired_up_to_a_strict_limit(
    log: str, most: int, expected: str, window: str
) -> None:
    share = opened()
    assert ranges(fetch(share, log, most=most, size=1, mode=LIMITED)) == expected
    assert picture(share) == window


def test_strictly_limited_batch_is_one_unit_for_any_batch_size() -> None:
    share = opened()
    assert ranges(fetch(share, SINGLES, most=20, size=3, mode=LIMITED)) == "0-19 x1"


def test_tail_of_a_limited_batch_is_acquired_next() -> None:
    share = opened()
    taken = [ranges(fetch(share, "0-9 10-19", most=4, mode=LIMITED)) for _ in range(6)]
    assert taken == ["0-3 x1", "4-7 x1", "8-11 x1", "12-15 x1", "16-19 x1", ""]


def test_tail_of_a_limited_batch_is_acquired_whole_in_batch_mode() -> None:
    share = opened()
    fetch(share, "0-9", most=4, mode=LIMITED)
    assert ranges(fetch(share, "0-9", most=1)) == "4-9 x1"


@pytest.mark.parametrize("mode", [OPTIMIZED, LIMITED])
def test_each_member_gets_its_own_records(mode: AcquireMode) -> None:
    share = opened()
    fetch(share, "0-4", "m1", mode=mode)
    fetch(share, "5-9", "m2", mode=mode)
    assert picture(share, members=True) == "0-4 acquired 1 m1, 5-9 acquired 1 m2"


@pytest.mark.parametrize(
    ("start", "log", "expected", "spso", "speo"),
    [
        pytest.param(0, "0-9", "0-9 x1", 0, 9, id="plain"),
        pytest.param(100, "100-109", "100-109 x1", 100, 109, id="later"),
        pytest.param(5, "0-9", "5-9 x1", 5, 9, id="SPSO inside the first log batch"),
        pytest.param(9, "0-9", "9 x1", 9, 9, id="SPSO on the last record of it"),
        pytest.param(5, "0-9 10-14", "5-14 x1", 5, 14, id="SPSO inside, two batches"),
        pytest.param(0, "7-9", "7-9 x1", 7, 9, id="SPSO jumps over a leading gap"),
        pytest.param(0, "0-3 7-9", "0-9 x1", 0, 9, id="a gap inside is acquired"),
    ],
)
def test_first_acquisition_sets_start_and_end_offset(
    start: int, log: str, expected: str, spso: int, speo: int
) -> None:
    share = opened(start)
    assert ranges(fetch(share, log)) == expected
    assert (share.start_offset, share.end_offset) == (spso, speo)
    assert share.in_flight_count == speo - spso + 1
    assert share.next_fetch_offset() == speo + 1


@pytest.mark.parametrize("log", ["0-9", "90-99", "0-50 51-99"])
def test_nothing_below_the_spso_is_acquired(log: str) -> None:
    share = opened(100)
    assert share.acquire(AcquireRequest("m1", 500, 500), 100, log_of(log), 0.0) == []
    assert (share.start_offset, share.end_offset, share.in_flight_count) == (100, 100, 0)


def test_empty_window_starts_at_the_next_offset() -> None:
    share = opened(42)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (42, 42, 42)
    assert (share.in_flight_count, share.delivery_complete_count) == (0, 0)
    assert share.next_deadline() is None
    assert share.acquirable_offset() is not None


def test_gap_after_the_window_is_not_acquired() -> None:
    share = opened()
    fetch(share, "0-9")
    assert ranges(fetch(share, "20-29")) == "20-29 x1"
    assert picture(share) == "0-9 acquired 1, 20-29 acquired 1"
    assert (share.end_offset, share.in_flight_count) == (29, 30)


def test_a_gap_between_old_and_new_log_batches_is_skipped() -> None:
    share = opened()
    fetch(share, "0-9", most=1)
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9 20-29")) == "0-9 x2, 20-29 x1"


@pytest.mark.parametrize(
    ("most", "expected"),
    [(10, "0-9 x1"), (11, "0-9 x1"), (15, "0-9 x1"), (20, "0-9 x1"), (21, "0-29 x1")],
)
def test_a_soft_limit_inside_a_log_gap_ends_before_it(most: int, expected: str) -> None:
    share = opened()
    assert ranges(fetch(share, "0-9 20-29", most=most)) == expected


def test_new_records_follow_redelivered_ones_up_to_the_limit() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9 10-19 20-29", most=15)) == "0-9 x2, 10-19 x1"


def test_no_new_records_when_redelivered_ones_fill_the_limit() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9 10-19", most=10)) == "0-9 x2"


# --- the lock limit


def narrow(locks: int) -> SharePartitionSettings:
    return SharePartitionSettings(max_record_locks=locks)


@pytest.mark.parametrize(
    ("locks", "log", "expected", "more"),
    [
        pytest.param(10, "0-9 10-19", "0-9 x1", False, id="exact"),
        pytest.param(5, "0-9 10-19", "0-4 x1", False, id="cuts a batch"),
        pytest.param(11, "0-9 10-19", "0-10 x1", False, id="cuts the second batch"),
        pytest.param(20, "0-9", "0-9 x1", True, id="room left"),
    ],
)
def test_the_window_is_full_at_its_limit(locks: int, log: str, expected: str, more: bool) -> None:
    share = opened(settings=narrow(locks))
    assert ranges(fetch(share, log)) == expected
    assert (share.acquirable_offset() is not None) is more
    if not more:
        assert fetch(share, "20-29") == []


@pytest.mark.parametrize("mode", [OPTIMIZED, LIMITED])
def test_a_batch_larger_than_the_limit_is_acquired_in_portions(mode: AcquireMode) -> None:
    share = opened(settings=narrow(100))
    seen = []
    while acquired := fetch(share, "0-399", mode=mode):
        assert share.in_flight.locked == 100
        assert fetch(share, "0-399", "m2", mode=mode) == []
        seen.append(ranges(acquired))
        ack(share, seen[-1].removesuffix(" x1"))
    assert seen == ["0-99 x1", "100-199 x1", "200-299 x1", "300-399 x1"]


@pytest.mark.parametrize("mode", [OPTIMIZED, LIMITED])
def test_locks_stay_below_a_lowered_limit_when_records_are_redelivered(mode: AcquireMode) -> None:
    share = opened(settings=narrow(30))
    fetch(share, "0-29")
    ack(share, "0-29", RELEASE)
    share.settings = narrow(7)
    assert ranges(fetch(share, "0-29", mode=mode)) == "0-6 x2"
    assert share.acquirable_offset() is None
    assert fetch(share, "0-29", mode=mode) == []
    ack(share, "3-6")
    assert ranges(fetch(share, "0-29", mode=mode)) == "7-10 x2"


@pytest.mark.parametrize(
    ("acknowledged", "log", "expected"),
    [
        pytest.param("0-9", "30-49", "", id="enough end"),
        pytest.param("0-8", "30-49", "30-39 x1", id="one too few end"),
        pytest.param("", "30-49", "30-39 x1", id="none ends"),
        pytest.param("0-29", "30-70", "30-39 x1", id="larger than the limit"),
        pytest.param("0-9", "30-34 35-49", "30-34 x1", id="after a batch that fits"),
        pytest.param("0-9", "34-53", "", id="after a gap in the log"),
        pytest.param("0-9", "30-35 50-69", "30-35 x1", id="a gap at the limit"),
    ],
)
def test_a_batch_waits_for_acknowledgements_that_make_room(
    acknowledged: str, log: str, expected: str
) -> None:
    share = opened(settings=narrow(40))
    fetch(share, "0-29")
    pending = share.acknowledge("m1", acks(acknowledged), 0.0) if acknowledged else None
    assert ranges(fetch(share, log)) == expected
    if pending is not None and not expected:
        share.complete([pending])
        assert ranges(fetch(share, log)) == f"{log} x1"


@pytest.mark.parametrize(
    ("kind", "most", "mode", "expected"),
    [
        pytest.param(RELEASE, 500, OPTIMIZED, "30-39 x1", id="released records keep their room"),
        pytest.param(ACCEPT, 500, LIMITED, "30-39 x1", id="a strict limit of the request cuts anyhow"),
        pytest.param(ACCEPT, 4, OPTIMIZED, "30-36 x1", id="the request ends before the batch"),
    ],
)
def test_a_batch_that_no_acknowledgement_helps_does_not_wait(
    kind: int, most: int, mode: AcquireMode, expected: str
) -> None:
    share = opened(settings=narrow(40))
    fetch(share, "0-29")
    share.acknowledge("m1", acks("0-9", kind), 0.0)
    log = "30-49" if most == 500 else "30-36 37-49"
    assert ranges(fetch(share, log, most=most, mode=mode)) == expected


def test_a_full_window_redelivers_and_acquires_nothing_new() -> None:
    share = opened(settings=narrow(30))
    fetch(share, "0-9 10-19 20-29")
    ack(share, "20", RELEASE)
    assert share.acquirable_offset() is not None
    assert ranges(fetch(share, "20-29 30-39")) == "20 x2"
    assert share.acquirable_offset() is None


def test_finished_records_after_a_slow_one_leave_the_window_open() -> None:
    share = opened(settings=narrow(30))
    fetch(share, "0-29")
    ack(share, "1-29")
    assert (share.in_flight_count, share.delivery_complete_count) == (30, 29)
    assert ranges(fetch(share, "30-69")) == "30-58 x1"
    assert share.acquirable_offset() is None
    ack(share, "0 30-58")
    assert (share.in_flight_count, share.start_offset, share.acquirable_offset()) == (0, 59, 59)


@pytest.mark.parametrize("delay", [0.0, 3600.0])
def test_one_unfinished_record_beside_200_000_later_ones_takes_few_runs(delay: float) -> None:
    share = opened(settings=SharePartitionSettings(lock_duration=1e6))
    fetch(share, "0-99", "slow")
    ack(share, "0-49 51-99", member="slow")
    if delay:
        transition = share.acknowledge("slow", acks("50", RELEASE), 0.0, delay)
        assert transition is not None
        done(share, transition)
    for first in range(100, 200_100, 500):
        assert offsets(fetch(share, [(first, first + 499)])) == list(range(first, first + 500))
        # Out of order, as several consumers acknowledge.
        ack(share, f"{first + 100}-{first + 499}")
        ack(share, f"{first}-{first + 99}")
    assert (share.start_offset, share.end_offset) == (50, 200_099)
    assert len(share.in_flight.runs) <= 3


@pytest.mark.patches
def test_counting_the_width_stops_delivery_behind_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant of the test above."""
    monkeypatch.setattr(InFlight, "room", lambda self, settings: settings.max_record_locks - self.count)
    with pytest.raises(AssertionError):
        test_one_unfinished_record_beside_200_000_later_ones_takes_few_runs(3600.0)


@pytest.mark.slow
def test_no_new_record_is_acquired_beyond_the_limit_of_runs() -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=30_000, lock_duration=1e6))
    for first in range(0, 30_000, 100):
        if fetch(share, [(first, first + 99)]) == []:
            break
        accepted = share.acknowledge("m1", [AckBatch(n, n, (1,)) for n in range(first, first + 100, 2)], 0.0)
        assert accepted is not None
        share.complete([accepted])
    assert 20_000 <= len(share.in_flight.runs) < 20_100
    assert 20_000 <= share.end_offset < 20_100
    assert share.acquirable_offset() is None
    # Held records still end, and unite with their neighbours.
    ack(share, " ".join(map(str, range(101, 221, 2))))
    end = share.end_offset + 1
    assert share.acquirable_offset() == end
    assert ranges(fetch(share, [(end, end + 9)])) == f"{end}-{end + 9} x1"


def test_the_width_of_the_window_is_bounded_by_kafkas_int32() -> None:
    share = opened()
    fetch(share, "0-9")
    share.in_flight.end = MAX_WIDTH - 2000
    assert share.acquirable_offset() == MAX_WIDTH - 1999
    share.in_flight.end += 1
    assert share.acquirable_offset() is None


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param("10-19 20-29 30-39", "10 x2, 15 x2", id="more read than the window holds"),
        pytest.param("10-19", "10 x2, 15 x2", id="less read"),
    ],
)
def test_full_window_is_searched_up_to_the_last_read_offset(log: str, expected: str) -> None:
    share = opened(settings=narrow(30))
    fetch(share, "0-9 10-19 20-29")
    ack(share, "10", RELEASE)
    ack(share, "15", RELEASE)
    assert ranges(fetch(share, log)) == expected


def test_raised_lock_limit_applies_at_once() -> None:
    share = opened(settings=narrow(10))
    fetch(share, "0-9")
    assert share.acquirable_offset() is None
    share.settings = narrow(20)
    assert ranges(fetch(share, "10-19")) == "10-19 x1"


def test_lowered_lock_limit_stops_acquisition_until_locks_end() -> None:
    share = opened(settings=narrow(100))
    fetch(share, "0-49")
    share.settings = narrow(20)
    assert fetch(share, "50-59") == []
    ack(share, "0-49")
    assert ranges(fetch(share, "50-59")) == "50-59 x1"


# --- tokens and deadlines


def test_all_ranges_of_a_call_share_token_and_deadline() -> None:
    share = opened(leader_epoch=7)
    acquired = fetch(share, SINGLES, most=5, size=1, now=100.0)
    assert {a.token for a in acquired} == {(7 << 32) + 1}
    assert {a.deadline for a in acquired} == {130.0}
    assert share.next_deadline() == 130.0


def test_every_call_has_its_own_token() -> None:
    share = opened()
    tokens = [fetch(share, [(n, n)])[0].token for n in range(5)]
    assert len(set(tokens)) == 5
    assert tokens == sorted(tokens)


def test_tokens_of_a_later_leader_are_higher() -> None:
    early, late = opened(leader_epoch=7), opened(leader_epoch=8)
    assert fetch(early, "0")[0].token < fetch(late, "0")[0].token


def test_acquisition_uses_the_current_lock_duration() -> None:
    share = opened()
    share.settings = SharePartitionSettings(lock_duration=5.0)
    assert fetch(share, "0-9", now=1.0)[0].deadline == 6.0


def test_rejected_acquisition_changes_nothing() -> None:
    share = opened(settings=narrow(10))
    fetch(share, "0-9", now=1.0)
    before = picture(share, members=True), share.next_deadline()
    assert fetch(share, "10-19", now=2.0) == []
    assert (picture(share, members=True), share.next_deadline()) == before
    check(share)
