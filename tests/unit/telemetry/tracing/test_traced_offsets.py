"""Traced records of partitions."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_server.telemetry.tracing.traced_offsets import TracedOffsets, TracedRecordLimit

CONTEXT = cast("Any", object())


def test_the_oldest_records_of_all_partitions_are_removed() -> None:
    limit = TracedRecordLimit(3)
    first, second = TracedOffsets(limit, 0), TracedOffsets(limit, 0)
    assert first.add(7, CONTEXT)
    assert not first.add(7, CONTEXT)
    assert second.add(1, CONTEXT)
    assert first.add(5, CONTEXT)
    assert [offset for offset, _ in first.within(0, 9)] == [5, 7]
    assert second.add(2, CONTEXT)
    assert first.within(6, 9) == []
    assert [offset for offset, _ in second.within(0, 1)] == [1]
    assert first
    assert not TracedOffsets(limit, 0)
