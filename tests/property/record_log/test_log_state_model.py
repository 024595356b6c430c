"""The log state against a naive model that keeps every batch in one list."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import LogState, MemoryLimits
from sharebroker_server.record_log.core.retention import Retention, disposable_before

NOW = 10_000
limits = st.builds(MemoryLimits, st.integers(0, 400), st.integers(1, 300), st.integers(1, 2_000))
retentions = st.builds(Retention, st.integers(-1, 10_000), st.integers(-1, 800), consumed=st.booleans())


@cache
def payload(size: int) -> bytes:
    return b"x" * size


@st.composite
def logs(draw: st.DrawFn) -> list[StoredBatch]:
    """Draws batches in order, sometimes with a gap between them."""
    offset, batches = 0, []
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 5]))
        last = offset + draw(st.integers(0, 4))
        size, time = draw(st.integers(1, 120)), draw(st.integers(-1, NOW))
        batches.append(StoredBatch(offset, last, payload(size), time))
        offset = last + 1
    return batches


def view_of(batches: list[StoredBatch], bounds: MemoryLimits) -> LogState:
    view = LogState(0, 0, (), bounds)
    for batch in batches:
        view.add(batch, NOW)
    return view


def expected(batches: list[StoredBatch], offset: int, max_bytes: int) -> list[StoredBatch]:
    found: list[StoredBatch] = []
    for batch in batches:
        if batch.last_offset >= offset:
            if found and sum(len(b.data) for b in found) + len(batch.data) > max_bytes:
                break
            found.append(batch)
    return found


@given(logs(), limits, st.integers(0, 70), st.integers(0, 70), st.integers(0, 500))
def test_cached_reads_equal_the_model(
    batches: list[StoredBatch], bounds: MemoryLimits, start: int, offset: int, max_bytes: int
) -> None:
    view = view_of(batches, bounds)
    view.move_log_start(min(start, view.log_end_offset))
    if not view.log_start_offset <= offset <= view.log_end_offset:
        with pytest.raises(KafkaError) as rejected:
            view.read_hot(offset, max_bytes)
        assert rejected.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        return
    hot = view.read_hot(offset, max_bytes)
    assert hot in (None, expected(batches, offset, max_bytes))
    if batches and offset >= batches[-1].base_offset:
        assert hot is not None, "the newest batch is always hot"


@given(logs(), limits, retentions, st.none() | st.integers(0, 80), st.integers(0, 70))
def test_retention_equals_the_model(
    batches: list[StoredBatch], bounds: MemoryLimits, retention: Retention, consumed: int | None, start: int
) -> None:
    view = view_of(batches, bounds)
    view.move_log_start(min(start, view.log_end_offset))
    before = disposable_before(view, retention, NOW, consumed)
    assert view.log_start_offset <= before <= view.log_end_offset
    if before == view.log_start_offset:
        return
    assert not any(b.base_offset < before <= b.last_offset for b in batches), "not on a batch boundary"
    gone = [b for b in batches if view.log_start_offset <= b.last_offset < before]
    kept = sum(len(b.data) for b in batches if b.last_offset >= before)
    young = [b for b in gone if b.max_timestamp < 0 or b.max_timestamp >= NOW - retention.retention_ms]
    assert (
        (retention.retention_ms >= 0 and not young)
        or (retention.retention_bytes >= 0 and kept >= retention.retention_bytes)
        or (retention.consumed and consumed is not None and before <= consumed)
    )


@given(logs(), limits, retentions)
def test_retention_removes_every_expired_batch_at_the_start(
    batches: list[StoredBatch], bounds: MemoryLimits, retention: Retention
) -> None:
    view = view_of(batches, bounds)
    while (before := disposable_before(view, retention, NOW, None)) > view.log_start_offset:
        view.move_log_start(before)
    kept = [b for b in batches if b.last_offset >= before]
    if not kept or before < view.hot_cache.start:
        return
    rest = sum(len(b.data) for b in kept[1:])
    assert retention.retention_bytes < 0 or rest < retention.retention_bytes
    oldest = NOW - retention.retention_ms
    assert retention.retention_ms < 0 or not 0 <= kept[0].max_timestamp < oldest


@given(logs(), limits, st.integers(0, 70))
def test_index_counts_every_batch_once(batches: list[StoredBatch], bounds: MemoryLimits, start: int) -> None:
    view = view_of(batches, bounds)
    rows = view.index.segments()
    assert sum(row.size for row in rows) == sum(len(b.data) for b in batches)
    assert all(a.end_offset <= b.base_offset for a, b in pairwise(rows))
    view.move_log_start(min(start, view.log_end_offset))
    assert list(view.index.segments()) == [row for row in rows if row.end_offset > start]


@given(logs(), limits, st.integers(0, NOW + 1))
def test_look_up_by_time_starts_at_or_before_the_result(
    batches: list[StoredBatch], bounds: MemoryLimits, timestamp: int
) -> None:
    found = view_of(batches, bounds).index.first_since(timestamp)
    response = next((b.base_offset for b in batches if b.max_timestamp >= timestamp), None)
    if response is not None:
        assert found is not None
        assert found <= response


@given(logs(), limits, st.integers(0, 12))
def test_reopened_log_equals_the_closed_one(
    batches: list[StoredBatch], bounds: MemoryLimits, saved: int
) -> None:
    """Index rows may be lost behind the last saved one: they are counted again."""
    live = view_of(batches, bounds)
    rows = live.index.unsaved[:saved]
    again = LogState(0, live.log_end_offset, rows, bounds)
    for batch in batches:
        if batch.last_offset >= again.unread_from:
            again.add(batch, NOW)
    assert list(again.index.segments()) == list(live.index.segments())
    assert again.log_end_offset == live.log_end_offset
    assert again.index.unsaved == live.index.unsaved[saved:]
