"""Notes about leader epochs: what is written, and what a store that fails leaves."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.stream_log.port import LogUnavailable
from sharebroker_server.upstream_log.core.epochs import EpochStart
from sharebroker_server.upstream_log.epoch_notes import EpochNotes
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.harness import code_of
from tests.unit.upstream_log.harness import NAME


async def loaded(store: MemoryRecordStore) -> EpochNotes:
    notes = EpochNotes(store, NAME)
    await notes.load()
    return notes


async def test_only_news_are_written() -> None:
    store = MemoryRecordStore()
    notes = await loaded(store)
    await notes.read([EpochStart(3, 10)], 1)
    store.fail_next_append(Fault.NOT_WRITTEN)
    await notes.read([EpochStart(3, 10)], 1)
    await notes.read([EpochStart(3, 20)], 1)
    store.drop_faults()
    await notes.read(iter([EpochStart(3, 20), EpochStart(4, 30)]), 1)
    await notes.truncated(25, 2)
    assert (await loaded(store)).history == notes.history
    assert list(notes.history.epochs) == [(3, 10)]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault.NOT_WRITTEN, ErrorCode.KAFKA_STORAGE_ERROR),
        (Fault.LOST_UNKNOWN, ErrorCode.KAFKA_STORAGE_ERROR),
        (Fault.FENCED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_notes_that_were_not_written_do_not_count(fault: Fault, code: ErrorCode) -> None:
    store = MemoryRecordStore()
    notes = await loaded(store)
    store.fail_next_append(fault)
    assert await code_of(notes.read([EpochStart(3, 10)], 1)) is code
    assert notes.history.last_epoch == -1


async def test_an_unreadable_store_is_reported() -> None:
    store = MemoryRecordStore()
    notes = await loaded(store)
    store.away = True
    assert await code_of(notes.load()) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(LogUnavailable):
        await notes.recheck(1)
