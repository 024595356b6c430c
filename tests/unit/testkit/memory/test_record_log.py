"""Faults on demand of the record store in memory; its guarantees are tested in tests/contract/record_log."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.port import Bounds
from sharebroker_server.stream_log.port import LogFenced, LogNotWritten, LogOutcomeUnknown
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import stored

NAME = "partition:7f3c:0"


async def test_memory_store_fails_on_demand() -> None:
    store = MemoryRecordStore()
    for fault in (Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN, Fault.FENCED):
        store.fail_next_append(fault)
    with pytest.raises(LogNotWritten):
        await store.append(NAME, 1, [stored(0)])
    with pytest.raises(LogOutcomeUnknown):
        await store.append(NAME, 1, [stored(0)])
    assert await store.bounds(NAME) == Bounds(0, 0)
    with pytest.raises(LogOutcomeUnknown):
        await store.append(NAME, 1, [stored(0)])
    assert await store.bounds(NAME) == Bounds(0, 3)
    for _ in range(2):
        with pytest.raises(LogFenced):
            await store.append(NAME, 1, [stored(3)])
    store.away = True
    with pytest.raises(LogNotWritten):
        await store.delete(NAME)
    with pytest.raises(LogNotWritten):
        await store.trim(NAME, 1, 1)
    assert store.appends == [(NAME, 1)]
