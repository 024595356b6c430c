"""The record store that measures appends."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.metered import MeteredRecordStore
from sharebroker_server.record_log.port import Bounds
from sharebroker_server.stream_log.port import LogNotWritten
from sharebroker_server.telemetry.process import Appends
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.unit.record_log.batches import stored

NAME = "partition:t:0"
SEGMENT = Segment(0, 3, 1, 1)


async def test_appends_are_counted_by_batches_and_bytes() -> None:
    memory, appends = MemoryRecordStore(), Appends()
    store = MeteredRecordStore(memory, appends)
    batches = [stored(0), stored(3, 2, 100)]
    await store.append(NAME, 1, batches, [SEGMENT], {"p7": b"1"})
    counted = appends.of("partition")
    assert counted.bytes == sum(len(batch.data) for batch in batches)
    assert (counted.records.sum, counted.failures) == (2, {})


async def test_a_failed_append_is_counted_by_its_error() -> None:
    memory, appends = MemoryRecordStore(), Appends()
    memory.away = True
    with pytest.raises(LogNotWritten):
        await MeteredRecordStore(memory, appends).append(NAME, 1, [stored(0)])
    counted = appends.of("partition")
    assert (counted.bytes, counted.failures) == (0, {"LogNotWritten": 1})


async def test_all_methods_reach_the_store() -> None:
    store = MeteredRecordStore(MemoryRecordStore(), Appends())
    await store.append(NAME, 1, [stored(0)], [SEGMENT], {"p7": b"1"})
    assert await store.read(NAME, 0, 1) == [stored(0)]
    assert await store.bounds(NAME) == Bounds(0, 3)
    assert await store.segments(NAME) == [SEGMENT]
    assert await store.snapshots(NAME) == {"p7": b"1"}
    assert await store.partitions() == {NAME}
    await store.trim(NAME, 1, 3)
    assert await store.bounds(NAME) == Bounds(3, 3)
    await store.delete(NAME)
    assert await store.partitions() == set()
