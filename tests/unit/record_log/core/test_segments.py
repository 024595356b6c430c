"""The sparse index of a log."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.segments import Segment, SegmentIndex

NOW = 9_000
CLOSED = [Segment(0, 10, 100, 1_000), Segment(10, 20, 100, 3_000), Segment(25, 30, 100, 2_000)]


def batch(base: int, size: int = 10, time: int = 1_000, *, control: bool = False) -> StoredBatch:
    return StoredBatch(base, base + 4, b"x" * size, time, control)


def index(*batches: StoredBatch, max_bytes: int = 100, max_ms: int = 500) -> SegmentIndex:
    """The index of a log whose closed segments are CLOSED."""
    found = SegmentIndex(CLOSED, max_bytes, max_ms)
    for each in batches:
        found.add(each, NOW)
    return found


def test_a_batch_opens_a_segment_and_the_next_one_extends_it() -> None:
    found = index(batch(30, time=1_000), batch(40, 20, 900))
    assert found.segments() == [*CLOSED, Segment(30, 45, 30, 1_000)]
    assert (found.closed_end, found.size, found.unsaved) == (30, 330, [])


@pytest.mark.parametrize(
    ("batches", "open_segments"),
    [
        ([batch(30, 99)], 1),
        ([batch(30, 100)], 0),
        ([batch(30, 60), batch(35, 40)], 0),
        ([batch(30, time=1_000), batch(35, time=1_499)], 1),
        ([batch(30, time=1_000), batch(35, time=1_500)], 0),
        ([batch(30, time=1_000), batch(35, time=1)], 1),
    ],
)
def test_a_segment_closes_at_its_size_or_span(batches: list[StoredBatch], open_segments: int) -> None:
    found = index(*batches)
    assert len(found.segments()) == 4
    assert len(found.unsaved) == 1 - open_segments
    assert found.closed_end == (30 if open_segments else batches[-1].last_offset + 1)


def test_a_batch_without_timestamp_gets_the_time_of_its_append() -> None:
    assert index(batch(30, time=-1)).segments()[-1].max_timestamp == NOW


def test_the_timestamp_of_a_transaction_marker_does_not_count() -> None:
    assert index(batch(30, time=NOW, control=True)).segments()[-1].max_timestamp == -1
    assert index(batch(30), batch(35, time=NOW, control=True)).segments()[-1].max_timestamp == 1_000


def test_closed_segments_are_unsaved_until_they_are_stored() -> None:
    found = index(batch(30, 100), batch(35, 100))
    first, second = Segment(30, 35, 100, 1_000), Segment(35, 40, 100, 1_000)
    assert found.unsaved == [first, second]
    found.saved(39)
    assert found.unsaved == [second]
    found.saved(40)
    assert found.unsaved == []
    assert found.closed_end == 40


@pytest.mark.parametrize(
    ("offset", "bases"),
    [(0, [0, 10, 25, 30, 35]), (9, [0, 10, 25, 30, 35]), (10, [10, 25, 30, 35]), (37, [35])],
)
def test_only_segments_below_the_offset_are_dropped(offset: int, bases: list[int]) -> None:
    found = index(batch(30, 100), batch(35))
    found.drop_before(offset)
    assert [segment.base_offset for segment in found.segments()] == bases


def test_the_open_segment_is_dropped_when_the_log_start_passes_it() -> None:
    found = index(batch(30, 100), batch(35))
    found.drop_before(40)
    assert (found.segments(), found.unsaved, found.size, found.closed_end) == ([], [], 0, 0)


@pytest.mark.parametrize(
    ("offset", "floor"), [(0, 0), (9, 0), (10, 10), (19, 10), (24, 20), (30, 30), (99, 30)]
)
def test_floor_is_the_end_of_a_closed_segment_at_or_below(offset: int, floor: int) -> None:
    assert index(batch(30)).floor(offset) == floor


@pytest.mark.parametrize(
    ("timestamp", "base"), [(0, 0), (1_000, 0), (1_001, 10), (3_000, 10), (3_001, 30), (4_001, None)]
)
def test_a_timestamp_is_in_the_first_segment_with_a_later_record(timestamp: int, base: int | None) -> None:
    assert index(batch(30, time=4_000)).first_since(timestamp) == base


@pytest.mark.parametrize(
    ("offset", "time"), [(0, 1_000), (9, 1_000), (10, 3_000), (22, 2_000), (34, 4_000), (35, -1)]
)
def test_the_time_around_an_offset_is_that_of_its_segment(offset: int, time: int) -> None:
    assert index(batch(30, time=4_000)).time_around(offset) == time


@pytest.mark.parametrize(("time", "base"), [(2_999, 10), (3_000, 10), (3_001, 30)])
def test_the_newest_segment_is_the_first_with_the_highest_timestamp(time: int, base: int) -> None:
    newest = index(batch(30, time=time)).newest()
    assert newest is not None
    assert newest.base_offset == base


def test_an_empty_log_has_no_segment() -> None:
    empty = SegmentIndex((), 100, 500)
    assert (empty.newest(), empty.first_since(0), empty.time_around(0)) == (None, None, -1)
    assert (empty.closed_end, empty.floor(7), empty.size) == (0, 0, 0)
