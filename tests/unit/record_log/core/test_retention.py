"""Which records retention deletes: by age, size and consumption, in segments and in the hot cache."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import HotCache, LogState, MemoryLimits, Segment
from sharebroker_server.record_log.core.retention import (
    Retention,
    disposable_before,
    expired_before,
    oversized_before,
)
from tests.testkit.tables import each
from tests.unit.record_log.core.log_states import SEGMENTS, SIZE, view

CONSUMED = Retention(-1, -1, consumed=True)


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
def test_expired_ends_at_the_first_young_segment(oldest: int, end: int) -> None:
    assert expired_before(SEGMENTS, COLD, 0, oldest) == end


@pytest.mark.parametrize(
    ("log_start", "oldest", "end"), [(0, 1_800, 10), (0, 3_500, 40), (25, 1_500, 25), (25, 1_501, 30)]
)
def test_single_batches_expire_within_the_tail(log_start: int, oldest: int, end: int) -> None:
    rows = [row for row in SEGMENTS if row.end_offset > log_start]
    assert expired_before(rows, HALF, log_start, oldest) == end


def test_batch_without_timestamp_expires_with_its_segment() -> None:
    hot = tail(of_size(0, 50, 1_000), of_size(5, 50, -1), of_size(10, 50, 1_000))
    assert expired_before([Segment(0, 15, 150, 2_000)], hot, 0, 1_500) == 5
    assert expired_before([Segment(0, 15, 150, 2_000)], hot, 0, 2_001) == 15


@pytest.mark.parametrize(
    ("limit", "end"),
    [(1000, 0), (401, 0), (400, 0), (399, 0), (301, 0), (300, 10), (299, 10), (100, 30), (1, 30)],
)
def test_oversized_leaves_at_least_the_limit(limit: int, end: int) -> None:
    assert oversized_before(SEGMENTS, COLD, limit) == end


def test_retention_without_limits_keeps_all() -> None:
    assert oversized_before(SEGMENTS, COLD, 0) == 40


@each(
    "limit, end",
    [(0, 40), (1, 35), (50, 35), (51, 30), (149, 25), (150, 25), (151, 10), (250, 10), (251, 0), (351, 0)],
)
def test_single_batches_beyond_the_limit_are_dropped_within_the_tail(limit: int, end: int) -> None:
    """A partly hot segment counts with its hot part only."""
    assert oversized_before(SEGMENTS, HALF, limit) == end


def test_empty_log_drops_nothing() -> None:
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
def test_retention_rules_are_combined_by_the_highest_offset(retention: Retention, end: int) -> None:
    log = LogState(0, COLD.end, SEGMENTS, MemoryLimits())
    log.hot_cache = COLD
    assert disposable_before(log, retention, 4_500, None) == end
    log.log_start_offset = 35
    assert disposable_before(log, retention, 4_500, None) == max(end, 35)


@pytest.mark.parametrize(
    ("consumed", "start"),
    [(None, 0), (0, 0), (5, 0), (6, 6), (7, 6), (8, 6), (9, 9), (12, 12), (99, 12)],
)
def test_consumption_frees_whole_batches(consumed: int | None, start: int) -> None:
    assert disposable_before(view(), CONSUMED, 0, consumed) == start


@pytest.mark.parametrize(("consumed", "start"), [(5, 0), (6, 6), (8, 6), (9, 6), (11, 6), (12, 12)])
def test_consumption_frees_whole_segments_below_the_tail(consumed: int, start: int) -> None:
    assert disposable_before(view(8, tail_batches=1), CONSUMED, 0, consumed) == start


def test_consumption_counts_only_with_the_consumed_policy() -> None:
    assert disposable_before(view(), Retention(-1, -1), 0, 12) == 0


def test_retention_never_moves_the_log_start_back() -> None:
    log = view()
    log.move_log_start(7)
    assert disposable_before(log, CONSUMED, 0, 6) == 7


@pytest.mark.parametrize(("now", "start"), [(2_000, 0), (2_003, 6), (3_003, 9), (4_003, 12)])
def test_age_frees_whole_segments_before_the_tail_and_batches_within_it(now: int, start: int) -> None:
    assert disposable_before(view(4, segment_batches=2), Retention(1_000, -1), now, None) == start


@pytest.mark.parametrize(
    ("batches_kept", "start"), [(0, 12), (1, 9), (1.5, 6), (2, 6), (2.5, 0), (3, 0), (4, 0), (5, 0)]
)
def test_size_frees_whole_segments_before_the_tail_and_batches_within_it(
    batches_kept: float, start: int
) -> None:
    assert disposable_before(view(4), Retention(-1, int(batches_kept * SIZE)), 0, None) == start


def test_a_log_smaller_than_a_segment_shrinks_to_its_limit() -> None:
    log = view(4, tail_batches=100, segment_batches=100)
    log.move_log_start(disposable_before(log, Retention(-1, 2 * SIZE), 0, None))
    assert (log.log_start_offset, log.hot_cache.size) == (6, 2 * SIZE)
    assert disposable_before(log, Retention(-1, 2 * SIZE), 0, None) == 6
