"""Records lost by the log: its start moves, compaction removes records, transactions abort."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.share_partition_leader.core.acquire import archive_hidden
from sharebroker_server.share_partition_leader.core.events import Counts
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    RELEASE,
    ack,
    acks,
    check,
    compact,
    fetch,
    log_of,
    opened,
    picture,
    ranges,
    show,
)

# --- log start (retention, delete-records)


@pytest.mark.parametrize(
    ("to", "window", "pointers"),
    [
        pytest.param(5, "5-9 acquired 1, 10-19 acknowledged 1, 20-29 available 1", (5, 29, 20), id="inside"),
        pytest.param(1, "1-9 acquired 1, 10-19 acknowledged 1, 20-29 available 1", (1, 29, 20), id="by one"),
        pytest.param(10, "20-29 available 1", (20, 29, 20), id="on a finished batch"),
        pytest.param(15, "20-29 available 1", (20, 29, 20), id="inside a finished batch"),
        pytest.param(20, "20-29 available 1", (20, 29, 20), id="on an available batch"),
        pytest.param(25, "25-29 available 1", (25, 29, 25), id="inside an available batch"),
        pytest.param(29, "29 available 1", (29, 29, 29), id="the last record"),
        pytest.param(30, "", (30, 30, 30), id="just after the window"),
        pytest.param(100, "", (100, 100, 100), id="far after the window"),
    ],
)
def test_window_starts_at_the_moved_log_start(to: int, window: str, pointers: tuple[int, int, int]) -> None:
    share = opened()
    fetch(share, "0-9 10-19 20-29", size=10)
    ack(share, "10-19")
    ack(share, "20-29", RELEASE)
    assert share.move_log_start(to)
    check(share)
    assert picture(share) == window
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == pointers
    assert share.write().start_offset == pointers[0]
    assert share.write().delivery_complete_count == share.delivery_complete_count


@pytest.mark.parametrize("to", [0, 5, 10])
def test_log_start_not_above_the_spso_changes_nothing(to: int) -> None:
    share = opened(10, "10-19 available 1")
    assert not share.move_log_start(to)
    assert picture(share) == "10-19 available 1"


def test_empty_window_starts_at_the_moved_log_start() -> None:
    share = opened(10)
    assert share.move_log_start(25)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (25, 25, 25)


def test_log_start_inside_a_gap_skips_the_gap() -> None:
    share = opened()
    fetch(share, "0-9")
    fetch(share, "20-29")
    assert share.move_log_start(15)
    assert share.start_offset == 20


def test_gap_in_the_loaded_state_below_the_log_start_is_skipped() -> None:
    share = opened(0, "20-29 available 1")
    assert share.move_log_start(15)
    assert picture(share) == "15-19 available 0, 20-29 available 1"


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_acknowledgement_of_deleted_records_succeeds_without_effect(kind: int) -> None:
    share = opened()
    fetch(share, "0-9")
    share.move_log_start(10)
    assert share.acknowledge("m1", acks("0-9", kind), 0.0) is None
    assert (share.start_offset, share.end_offset) == (10, 10)


def test_acknowledgement_across_the_new_start_applies_from_it() -> None:
    share = opened()
    fetch(share, "0-9")
    share.move_log_start(5)
    assert show(ack(share, "0-9", RELEASE)) == "5: 5-9 available 1"


def test_finished_records_below_the_new_start_are_not_counted() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "2-7")
    assert share.delivery_complete_count == 6
    share.move_log_start(1)
    assert share.delivery_complete_count == 6
    share.move_log_start(5)
    assert (share.delivery_complete_count, share.start_offset) == (0, 8)


def test_finished_run_is_split_at_the_new_start() -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    ack(share, "2-12")
    assert share.delivery_complete_count == 11
    share.move_log_start(6)
    assert (share.start_offset, share.delivery_complete_count) == (13, 0)


def test_records_deleted_ten_then_five_more() -> None:
    """testLsoMovementByRecordsDeletion."""
    share = opened()
    share.move_log_start(5)
    assert ranges(fetch(share, "5-9")) == "5-9 x1"
    ack(share, "5-9")
    share.move_log_start(14)
    assert ranges(fetch(share, "14")) == "14 x1"
    ack(share, "14")
    assert not share.move_log_start(15)
    assert fetch(share, "") == []


# --- compaction


def test_available_records_skipped_by_the_log_are_archived() -> None:
    """KAFKA-17351: a whole available batch is compacted away."""
    share = opened()
    fetch(share, "0-9 10-19 20-29", size=10)
    ack(share, "10-19", RELEASE)
    assert ranges(fetch(share, "20-29 30-39")) == "30-39 x1"
    assert picture(share) == "0-9 acquired 1, 10-19 archived 1, 20-39 acquired 1"
    assert share.next_fetch_offset() == 40


def test_only_available_records_are_archived_by_compaction() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "2-3", RELEASE)
    ack(share, "6-7", RELEASE)
    assert ranges(fetch(share, "9 10-19")) == "10-19 x1"
    assert picture(share) == (
        "0-1 acquired 1, 2-3 archived 1, 4-5 acquired 1, 6-7 archived 1, 8-19 acquired 1"
    )
    assert share.delivery_complete_count == 4


def test_compacted_records_at_the_start_move_the_spso() -> None:
    share = opened(0, "0-9 available 1")
    assert ranges(fetch(share, "5-9")) == "5-9 x2"
    assert share.start_offset == 5


@pytest.mark.parametrize(
    ("first", "last", "window"),
    [
        (0, 9, "10-19 acquired 1"),
        (0, 4, "5-9 available 1, 10-19 acquired 1"),
        (5, 9, "0-4 available 1, 5-9 archived 1, 10-19 acquired 1"),
        (3, 5, "0-2 available 1, 3-5 archived 1, 6-9 available 1, 10-19 acquired 1"),
        (8, 15, "0-7 available 1, 8-9 archived 1, 10-19 acquired 1"),
        (10, 19, "0-9 available 1, 10-19 acquired 1"),
        (50, 60, "0-9 available 1, 10-19 acquired 1"),
    ],
)
def test_missing_records_are_archived(first: int, last: int, window: str) -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    ack(share, "0-9", RELEASE)
    compact(share, first, last)
    check(share)
    assert picture(share) == window


# --- aborted transactions (read_committed)


def piece(text: str) -> list[AcquiredRange]:
    return [AcquiredRange(first, last, 1, 7, 30.0) for first, last in log_of(text)]


@pytest.mark.parametrize(
    ("acquired", "aborted", "kept"),
    [
        pytest.param("0-9", "", "0-9 x1", id="none aborted"),
        pytest.param("0-9", "0-9", "", id="all"),
        pytest.param("0-9", "0-4", "5-9 x1", id="front"),
        pytest.param("0-9", "5-9", "0-4 x1", id="tail"),
        pytest.param("0-9", "3-5", "0-2 x1, 6-9 x1", id="middle"),
        pytest.param("0-9", "1 3 5", "0 x1, 2 x1, 4 x1, 6-9 x1", id="several"),
        pytest.param("0-9 10-19", "8-12", "0-7 x1, 13-19 x1", id="across ranges"),
        pytest.param("5-9", "0-4 10-14", "5-9 x1", id="elsewhere"),
        pytest.param("5-9", "0-6", "7-9 x1", id="from before"),
        pytest.param("0-4 20-24", "0-24", "", id="over a gap"),
    ],
)
def test_aborted_records_are_removed_from_acquired_ranges(acquired: str, aborted: str, kept: str) -> None:
    assert ranges(archive_hidden(InFlight(0), piece(acquired), log_of(aborted), Counts())) == kept


@pytest.mark.parametrize(
    ("aborted", "kept", "window"),
    [
        ("0-9", "10-19 x1", "10-19 acquired 1"),
        ("10-19", "0-9 x1", "0-9 acquired 1, 10-19 archived 1"),
        ("5-14", "0-4 x1, 15-19 x1", "0-4 acquired 1, 5-14 archived 1, 15-19 acquired 1"),
        ("0-19", "", ""),
        ("30-39", "0-9 x1, 10-19 x1", "0-19 acquired 1"),
    ],
)
def test_aborted_records_are_archived_at_once(aborted: str, kept: str, window: str) -> None:
    share = opened()
    acquired = fetch(share, "0-9 10-19", size=10)
    assert ranges(share.archive_aborted(acquired, log_of(aborted))) == kept
    check(share)
    assert picture(share) == window


def test_an_aborted_record_with_a_pending_acknowledgement_keeps_it() -> None:
    share = opened()
    acquired = fetch(share, "0-9")
    pending = share.acknowledge("m1", acks("0-4", RELEASE), 0.0)
    share.archive_aborted(acquired, [(0, 9)])
    assert picture(share) == "0-4 acquired 1, 5-9 archived 1"
    assert pending is not None
    assert share.complete([pending]).released == 5
