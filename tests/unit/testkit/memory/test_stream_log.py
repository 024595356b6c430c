"""Faults on demand of the stream log in memory; its guarantees are tested in tests/contract/stream_log."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.stream_log.port import (
    Entry,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogRefused,
    LogUnavailable,
)
from tests.testkit.memory.stream_log import Fault, MemoryStreamLog

SHARD = "share-coordinator:7"


async def test_memory_log_fails_on_demand() -> None:
    log = MemoryStreamLog()
    for fault in (Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN):
        log.fail_next_append(fault)
    with pytest.raises(LogNotWritten):
        await log.append(SHARD, 1, 1, [b"a"])
    with pytest.raises(LogOutcomeUnknown):
        await log.append(SHARD, 1, 1, [b"a"])
    assert await log.last_position(SHARD) == 0
    with pytest.raises(LogOutcomeUnknown):
        await log.append(SHARD, 1, 1, [b"a"])
    assert await log.read(SHARD, 0, 10) == [Entry(1, b"a")]
    log.fail_next_append(Fault.FENCED)
    with pytest.raises(LogFenced):
        await log.append(SHARD, 1, 2, [b"b"])
    with pytest.raises(LogFenced):
        await log.append(SHARD, 1, 2, [b"b"])
    assert log.appends == [(SHARD, 1, 1)]


async def test_memory_log_is_unavailable_on_demand() -> None:
    log = MemoryStreamLog()
    log.away = True
    with pytest.raises(LogNotWritten):
        await log.append(SHARD, 1, 1, [b"a"])
    with pytest.raises(LogNotWritten):
        await log.delete(SHARD)
    with pytest.raises(LogUnavailable):
        await log.read(SHARD, 0, 10)
    with pytest.raises(LogUnavailable):
        await log.last_position(SHARD)


async def test_memory_log_delays_appends_on_demand() -> None:
    log = MemoryStreamLog()
    log.hold()
    append = asyncio.create_task(log.append(SHARD, 1, 1, [b"a"]))
    await asyncio.sleep(0)
    assert log.appends == []
    log.release()
    await append
    assert log.appends == [(SHARD, 1, 1)]


async def test_memory_log_is_full_on_demand() -> None:
    log = MemoryStreamLog()
    log.full = True
    with pytest.raises(LogRefused):
        await log.append(SHARD, 1, 1, [b"a"])
    await log.trim(SHARD, 1, 1)
    log.full = False
    await log.append(SHARD, 1, 1, [b"a"])
    assert log.appends == [(SHARD, 1, 1)]
