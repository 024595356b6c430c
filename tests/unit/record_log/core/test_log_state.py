from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.log_state import Limits, LogState
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.segments import Segment
from tests.unit.record_log.batches import stored

SIZE = len(stored(0).data)
CONSUMED = Retention(-1, -1, consumed=True)


def view(batches: int = 4, *, tail_batches: int = 2, segment_batches: int = 2) -> LogState:
    """A log of batches of three records from 0 on; by default the last two are hot and two make a segment."""
    log = LogState(0, 0, (), Limits(tail_batches * SIZE, segment_batches * SIZE))
    for i in range(batches):
        log.add(stored(3 * i, time=1000 * i), now_ms=0)
    return log


def test_log_end_follows_what_is_added() -> None:
    log = view()
    assert (log.log_start_offset, log.log_end_offset) == (0, 12)
    assert [b.base_offset for b in log.read_hot(6, 10**6) or []] == [6, 9]
    assert log.read_hot(5, 10**6) is None
    assert log.read_hot(12, 10**6) == []


def test_what_was_read_from_the_store_is_served_once_in_order() -> None:
    log = view(6)
    log.cache_read([stored(3), stored(6), stored(9)])
    assert log.read_hot(0, 10**6) is None
    assert [b.base_offset for b in log.read_hot(4, SIZE) or []] == [3]
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6, 9]
    assert log.read_hot(4, SIZE) is None
    assert [b.base_offset for b in log.read_hot(12, 10**6) or []] == [12, 15]


def test_log_start_moves_past_what_was_read_from_the_store() -> None:
    log = view(6)
    log.cache_read([stored(3), stored(6)])
    log.move_log_start(7)
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6]
    log.cache_read([])
    assert log.read_hot(9, 10**6) is None


@pytest.mark.parametrize("offset", [-1, 2, 13])
def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    log = view()
    log.move_log_start(3)
    with pytest.raises(KafkaError) as caught:
        log.read_hot(offset, 1)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert caught.value.metadata == {"log_start_offset": "3", "log_end_offset": "12"}


@pytest.mark.parametrize(
    ("consumed", "start"),
    [(None, 0), (0, 0), (5, 0), (6, 6), (7, 6), (8, 6), (9, 9), (12, 12), (99, 12)],
)
def test_consumption_frees_whole_batches(consumed: int | None, start: int) -> None:
    assert view().disposable_before(CONSUMED, 0, consumed) == start


@pytest.mark.parametrize(("consumed", "start"), [(5, 0), (6, 6), (8, 6), (9, 6), (11, 6), (12, 12)])
def test_consumption_frees_whole_segments_where_the_tail_does_not_reach(consumed: int, start: int) -> None:
    assert view(8, tail_batches=1).disposable_before(CONSUMED, 0, consumed) == start


def test_consumption_counts_only_when_the_topic_says_so() -> None:
    assert view().disposable_before(Retention(-1, -1), 0, 12) == 0


def test_log_start_never_moves_back() -> None:
    log = view()
    log.move_log_start(7)
    assert log.disposable_before(CONSUMED, 0, 6) == 7
    assert log.deletable_before(2) == 7
    log.move_log_start(3)
    assert log.log_start_offset == 7


@pytest.mark.parametrize(("now", "start"), [(2_000, 0), (2_003, 6), (3_003, 9), (4_003, 12)])
def test_age_frees_whole_segments_before_the_tail_and_batches_within_it(now: int, start: int) -> None:
    assert view(4, segment_batches=2).disposable_before(Retention(1_000, -1), now, None) == start


@pytest.mark.parametrize(
    ("batches_kept", "start"), [(0, 12), (1, 9), (1.5, 6), (2, 6), (2.5, 0), (3, 0), (4, 0), (5, 0)]
)
def test_size_frees_whole_segments_before_the_tail_and_batches_within_it(
    batches_kept: float, start: int
) -> None:
    assert view(4).disposable_before(Retention(-1, int(batches_kept * SIZE)), 0, None) == start


def test_a_log_smaller_than_a_segment_shrinks_to_its_limit() -> None:
    log = view(4, tail_batches=100, segment_batches=100)
    log.move_log_start(log.disposable_before(Retention(-1, 2 * SIZE), 0, None))
    assert (log.log_start_offset, log.hot_cache.size) == (6, 2 * SIZE)
    assert log.disposable_before(Retention(-1, 2 * SIZE), 0, None) == 6


def test_records_are_deleted_up_to_any_offset() -> None:
    log = view()
    assert log.deletable_before(5) == 5
    assert log.deletable_before(-1) == 12
    for wrong in (13, -2):
        with pytest.raises(KafkaError) as caught:
            log.deletable_before(wrong)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_moving_the_log_start_forgets_what_lies_below() -> None:
    log = view(tail_batches=4)
    log.move_log_start(7)
    assert [b.base_offset for b in log.read_hot(7, 10**6) or []] == [6, 9]
    assert [row.base_offset for row in log.index.segments()] == [6]


def test_an_opened_log_counts_on_behind_its_index_rows() -> None:
    log = LogState(4, 12, [Segment(0, 6, 10, 1)], Limits())
    assert log.unread_from == 6
    assert LogState(4, 4, (), Limits()).unread_from == 4


def test_the_time_of_a_record_is_that_of_its_batch_or_of_the_stretch_around_it() -> None:
    log = view(5)  # the last two batches are hot, the first four are in two closed segments
    assert [log.time_of(offset) for offset in (9, 11, 12)] == [3002, 3002, 4002]
    assert [log.time_of(offset) for offset in (0, 5, 6)] == [1002, 1002, 3002]
    assert log.time_of(15) == -1
    assert LogState(0, 0, (), Limits()).time_of(0) == -1
