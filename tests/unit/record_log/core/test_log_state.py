from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import (
    HotCache,
    LogState,
    MemoryLimits,
    Segment,
    SegmentIndex,
    select_batches,
)
from tests.unit.record_log.batches import stored
from tests.unit.record_log.core.log_states import SEGMENTS, SIZE, view


def filled(limit: int = 100 * SIZE, first: int = 10, batches: int = 4) -> HotCache:
    """Batches of three records from offset `first` on."""
    tail = HotCache(limit, first)
    for i in range(batches):
        tail.add(stored(first + 3 * i))
    return tail


def bases(tail: HotCache, offset: int, max_bytes: int = 10**9) -> list[int] | None:
    batches = tail.read(offset, max_bytes)
    return None if batches is None else [batch.base_offset for batch in batches]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (9, None),
        (10, [10, 13, 16, 19]),
        (12, [10, 13, 16, 19]),
        (13, [13, 16, 19]),
        (21, [19]),
        (22, []),
    ],
)
def test_read_begins_with_the_batch_that_contains_the_offset(offset: int, expected: list[int] | None) -> None:
    assert bases(filled(), offset) == expected


@pytest.mark.parametrize(
    ("max_bytes", "count"), [(0, 1), (1, 1), (SIZE, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2), (10 * SIZE, 4)]
)
def test_read_returns_at_least_one_batch_within_the_limit(max_bytes: int, count: int) -> None:
    assert len(filled().read(10, max_bytes) or []) == count


def test_oldest_batches_leave_the_full_cache() -> None:
    tail = filled(limit=2 * SIZE)
    assert (tail.start, tail.end, tail.size) == (16, 22, 2 * SIZE)
    assert bases(tail, 15) is None
    assert bases(tail, 16) == [16, 19]


def test_newest_batch_stays_in_the_cache_even_when_oversized() -> None:
    tail = filled(limit=1)
    assert bases(tail, 19) == [19]
    assert bases(tail, 18) is None


def test_read_inside_a_gap_finds_the_next_batch() -> None:
    tail = HotCache(10**6, 0)
    tail.add(stored(0))
    tail.add(stored(100))
    assert bases(tail, 50) == [100]
    assert tail.floor(50) == 50


@pytest.mark.parametrize(("offset", "floor"), [(10, 10), (12, 10), (13, 13), (15, 13), (21, 19), (22, 22)])
def test_floor_is_the_batch_boundary_below(offset: int, floor: int) -> None:
    assert filled().floor(offset) == floor


def test_floor_beyond_the_last_batch_is_the_end() -> None:
    assert filled().floor(30) == 22
    assert HotCache(1, 7).floor(7) == 7


@pytest.mark.parametrize(
    ("offset", "left"),
    [(10, [10, 13, 16, 19]), (12, [10, 13, 16, 19]), (13, [13, 16, 19]), (22, []), (99, [])],
)
def test_drop_before_keeps_the_batch_that_contains_the_offset(offset: int, left: list[int]) -> None:
    tail = filled()
    tail.drop_before(offset)
    assert bases(tail, tail.start) == left
    assert tail.size == SIZE * len(left)
    tail.add(stored(22))
    assert bases(tail, 22) == [22]


def test_select_batches_of_an_empty_list_is_empty() -> None:
    assert select_batches([], 0, 10) == []


NOW = 9_000
CLOSED = [Segment(0, 10, 100, 1_000), Segment(10, 20, 100, 3_000), Segment(25, 30, 100, 2_000)]


def batch(base: int, size: int = 10, time: int = 1_000, *, control: bool = False) -> StoredBatch:
    return StoredBatch(base, base + 4, b"x" * size, time, control)


def index(*batches: StoredBatch, max_bytes: int = 100, max_ms: int = 500) -> SegmentIndex:
    """The index of a log whose closed segments are CLOSED."""
    found = SegmentIndex(CLOSED, max_bytes, max_ms)
    for batch in batches:
        found.add(batch, NOW)
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


def small_segments(max_bytes: int = 2 * SIZE, max_ms: int = 10**9) -> SegmentIndex:
    return SegmentIndex((), max_bytes, max_ms)


def test_a_segment_closes_when_it_is_full() -> None:
    rows = small_segments()
    for base, time in ((0, 500), (3, 100), (6, 300)):
        rows.add(stored(base, time=time), now_ms=0)
    full, rest = Segment(0, 6, 2 * SIZE, 502), Segment(6, 9, SIZE, 302)
    assert list(rows.segments()) == [full, rest]
    assert rows.unsaved == [full]
    assert rows.closed_end == 6
    rows.saved(6)
    assert rows.unsaved == []


def test_segment_closes_at_its_time_span() -> None:
    rows = small_segments(max_bytes=10**9, max_ms=1000)
    for base, time in ((0, 0), (3, 500), (6, 1000), (9, 2000)):
        rows.add(stored(base, time=time), now_ms=0)
    assert [row.end_offset for row in rows.segments()] == [9, 12]
    assert [row.end_offset for row in rows.unsaved] == [9]


def test_batch_without_timestamp_has_the_age_of_its_append() -> None:
    rows = small_segments()
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
def test_drop_before_removes_whole_segments(offset: int, left: list[int], unsaved: list[int]) -> None:
    rows = small_segments()
    for base in range(0, 15, 3):
        rows.add(stored(base), now_ms=0)
    rows.drop_before(offset)
    assert [row.end_offset for row in rows.segments()] == left
    assert [row.end_offset for row in rows.unsaved] == unsaved


def test_drop_before_removes_the_open_segment() -> None:
    rows = small_segments()
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


def test_log_end_follows_added_batches() -> None:
    log = view()
    assert (log.log_start_offset, log.log_end_offset) == (0, 12)
    assert [b.base_offset for b in log.read_hot(6, 10**6) or []] == [6, 9]
    assert log.read_hot(5, 10**6) is None
    assert log.read_hot(12, 10**6) == []


def test_read_cache_serves_batches_once_in_order() -> None:
    log = view(6)
    log.cache_read([stored(3), stored(6), stored(9)])
    assert log.read_hot(0, 10**6) is None
    assert [b.base_offset for b in log.read_hot(4, SIZE) or []] == [3]
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6, 9]
    assert log.read_hot(4, SIZE) is None
    assert [b.base_offset for b in log.read_hot(12, 10**6) or []] == [12, 15]


def test_log_start_moves_past_the_read_cache() -> None:
    log = view(6)
    log.cache_read([stored(3), stored(6)])
    log.move_log_start(7)
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6]
    log.cache_read([])
    assert log.read_hot(9, 10**6) is None


@pytest.mark.parametrize("offset", [-1, 2, 13])
def test_offsets_outside_the_log_are_rejected(offset: int) -> None:
    log = view()
    log.move_log_start(3)
    with pytest.raises(KafkaError) as caught:
        log.read_hot(offset, 1)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert caught.value.metadata == {"log_start_offset": "3", "log_end_offset": "12"}


def test_log_start_never_moves_back() -> None:
    log = view()
    log.move_log_start(7)
    assert log.deletable_before(2) == 7
    log.move_log_start(3)
    assert log.log_start_offset == 7


def test_records_are_deleted_up_to_any_offset() -> None:
    log = view()
    assert log.deletable_before(5) == 5
    assert log.deletable_before(-1) == 12
    for wrong in (13, -2):
        with pytest.raises(KafkaError) as caught:
            log.deletable_before(wrong)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_moving_the_log_start_drops_older_batches() -> None:
    log = view(tail_batches=4)
    log.move_log_start(7)
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6, 9]
    assert [row.base_offset for row in log.index.segments()] == [6]


def test_opened_log_continues_after_its_segments() -> None:
    log = LogState(4, 12, [Segment(0, 6, 10, 1)], MemoryLimits())
    assert log.unread_from == 6
    assert LogState(4, 4, (), MemoryLimits()).unread_from == 4


def test_time_of_a_record_is_that_of_its_batch_or_segment() -> None:
    log = view(5)  # the last two batches are hot, the first four are in two closed segments
    assert [log.time_of(offset) for offset in (9, 11, 12)] == [3002, 3002, 4002]
    assert [log.time_of(offset) for offset in (0, 5, 6)] == [1002, 1002, 3002]
    assert log.time_of(15) == -1
    assert LogState(0, 0, (), MemoryLimits()).time_of(0) == -1
