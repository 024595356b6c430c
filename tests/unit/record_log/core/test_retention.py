from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.hot_cache import HotCache
from sharebroker_server.record_log.core.retention import (
    Retention,
    disposable_before,
    expired_before,
    oversized_before,
)
from sharebroker_server.record_log.core.segments import Segment, SegmentIndex
from tests.unit.record_log.batches import stored

SEGMENTS = [
    Segment(0, 10, 100, 1_000),
    Segment(10, 20, 100, 3_000),
    Segment(20, 30, 100, 2_000),
    Segment(30, 40, 100, 4_000),
]
SIZE = len(stored(0).data)


def tail(*batches: StoredBatch, start: int = 0, limit: int = 10**9) -> HotCache:
    """A tail of these batches, or an empty one at `start`."""
    hot = HotCache(limit, start)
    for batch in batches:
        hot.add(batch)
    return hot


def of_size(base: int, size: int, time: int) -> StoredBatch:
    return StoredBatch(base, base + 4, b"x" * size, time)


COLD = tail(start=40)
"""Nothing is hot."""
HALF = tail(*(of_size(base, 50, 1_500 + 250 * i) for i, base in enumerate((25, 30, 35))), start=25)
"""The last one and a half segments are hot."""


@pytest.mark.parametrize(
    ("oldest", "end"), [(0, 0), (1_000, 0), (1_001, 10), (2_500, 10), (3_001, 30), (4_000, 30), (4_001, 40)]
)
def test_expired_is_what_lies_before_the_first_young_segment(oldest: int, end: int) -> None:
    assert expired_before(SEGMENTS, COLD, 0, oldest) == end


@pytest.mark.parametrize(
    ("log_start", "oldest", "end"), [(0, 1_800, 10), (0, 3_500, 40), (25, 1_500, 25), (25, 1_501, 30)]
)
def test_within_the_tail_single_batches_expire(log_start: int, oldest: int, end: int) -> None:
    rows = [row for row in SEGMENTS if row.end_offset > log_start]
    assert expired_before(rows, HALF, log_start, oldest) == end


def test_a_batch_without_time_waits_for_its_segment() -> None:
    hot = tail(of_size(0, 50, 1_000), of_size(5, 50, -1), of_size(10, 50, 1_000))
    assert expired_before([Segment(0, 15, 150, 2_000)], hot, 0, 1_500) == 5
    assert expired_before([Segment(0, 15, 150, 2_000)], hot, 0, 2_001) == 15


@pytest.mark.parametrize(
    ("limit", "end"),
    [(1000, 0), (401, 0), (400, 0), (399, 0), (301, 0), (300, 10), (299, 10), (100, 30), (1, 30)],
)
def test_oversized_leaves_at_least_the_limit(limit: int, end: int) -> None:
    assert oversized_before(SEGMENTS, COLD, limit) == end


def test_without_any_limit_everything_goes() -> None:
    assert oversized_before(SEGMENTS, COLD, 0) == 40


@pytest.mark.parametrize(
    ("limit", "end"),
    [(0, 40), (1, 35), (50, 35), (51, 30), (149, 25), (150, 25), (151, 10), (250, 10), (251, 0), (351, 0)],
)
def test_within_the_tail_single_batches_are_too_many(limit: int, end: int) -> None:
    """The segment that is hot in part counts as far as it is hot."""
    assert oversized_before(SEGMENTS, HALF, limit) == end


def test_nothing_to_drop_from_nothing() -> None:
    assert expired_before([], tail(), 0, 1) == 0
    assert oversized_before([], tail(), 0) == 0
    assert oversized_before([], tail(), 1) == 0


@pytest.mark.parametrize(
    ("retention", "end"),
    [
        (Retention(-1, -1), 0),
        (Retention(2_000, -1), 10),
        (Retention(-1, 100), 30),
        (Retention(2_000, 100), 30),
        (Retention(0, 100), 40),
    ],
)
def test_the_most_generous_rule_wins(retention: Retention, end: int) -> None:
    assert disposable_before(retention, SEGMENTS, COLD, 0, now_ms=4_500) == end
    assert disposable_before(retention, SEGMENTS, COLD, 35, now_ms=4_500) == max(end, 35)


def index(max_bytes: int = 2 * SIZE, max_ms: int = 10**9) -> SegmentIndex:
    return SegmentIndex((), max_bytes, max_ms)


def test_a_segment_closes_when_it_is_full() -> None:
    rows = index()
    for base, time in ((0, 500), (3, 100), (6, 300)):
        rows.add(stored(base, time=time), now_ms=0)
    full, rest = Segment(0, 6, 2 * SIZE, 502), Segment(6, 9, SIZE, 302)
    assert list(rows.segments()) == [full, rest]
    assert rows.unsaved == [full]
    assert rows.closed_end == 6
    rows.saved(6)
    assert rows.unsaved == []


def test_a_segment_closes_when_it_spans_too_long() -> None:
    rows = index(max_bytes=10**9, max_ms=1000)
    for base, time in ((0, 0), (3, 500), (6, 1000), (9, 2000)):
        rows.add(stored(base, time=time), now_ms=0)
    assert [row.end_offset for row in rows.segments()] == [9, 12]
    assert [row.end_offset for row in rows.unsaved] == [9]


def test_a_batch_without_time_is_as_old_as_its_append() -> None:
    rows = index()
    rows.add(stored(0, count=1, time=-1), now_ms=7_000)
    assert [row.max_timestamp for row in rows.segments()] == [7_000]


@pytest.mark.parametrize(
    ("offset", "left", "unsaved"),
    [
        (0, [6, 12, 15], [6, 12]),
        (5, [6, 12, 15], [6, 12]),
        (6, [12, 15], [12]),
        (12, [15], []),
        (14, [15], []),
    ],
)
def test_drop_before_forgets_whole_segments(offset: int, left: list[int], unsaved: list[int]) -> None:
    rows = index()
    for base in range(0, 15, 3):
        rows.add(stored(base), now_ms=0)
    rows.drop_before(offset)
    assert [row.end_offset for row in rows.segments()] == left
    assert [row.end_offset for row in rows.unsaved] == unsaved


def test_drop_before_forgets_the_open_segment() -> None:
    rows = index()
    rows.add(stored(0), now_ms=0)
    rows.drop_before(3)
    assert list(rows.segments()) == []
    assert rows.closed_end == 0


@pytest.mark.parametrize(("offset", "floor"), [(0, 0), (9, 0), (10, 10), (25, 20), (40, 40), (50, 40)])
def test_floor_is_a_segment_end(offset: int, floor: int) -> None:
    assert SegmentIndex(SEGMENTS, 1, 1).floor(offset) == floor


@pytest.mark.parametrize(("time", "base"), [(0, 0), (1_001, 10), (3_001, 30), (4_001, None)])
def test_first_since_finds_the_first_segment_young_enough(time: int, base: int | None) -> None:
    assert SegmentIndex(SEGMENTS, 1, 1).first_since(time) == base
