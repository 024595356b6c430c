"""The stream log that measures appends."""

from __future__ import annotations

import pytest

from sharebroker_server.stream_log.metered import MeteredStreamLog
from sharebroker_server.stream_log.port import Entry, LogOutOfOrder
from sharebroker_server.telemetry.process import Appends
from tests.testkit.memory.stream_log import MemoryStreamLog

SHARD = "share-coordinator:7"


async def test_appends_are_counted_by_the_kind_of_their_shard() -> None:
    appends = Appends()
    log = MeteredStreamLog(MemoryStreamLog(), appends)
    await log.append(SHARD, 1, 1, [b"ab", b"c"])
    await log.append("group-coordinator:0", 1, 1, [b"abcd"])
    assert (appends.of("share-coordinator").records.sum, appends.of("share-coordinator").bytes) == (2, 3)
    assert (appends.of("group-coordinator").records.sum, appends.of("group-coordinator").bytes) == (1, 4)


async def test_a_failed_append_is_counted_by_its_error() -> None:
    appends = Appends()
    with pytest.raises(LogOutOfOrder):
        await MeteredStreamLog(MemoryStreamLog(), appends).append(SHARD, 1, 2, [b"a"])
    counted = appends.of("share-coordinator")
    assert (counted.bytes, counted.failures) == (0, {"LogOutOfOrder": 1})


async def test_all_methods_reach_the_log() -> None:
    log = MeteredStreamLog(MemoryStreamLog(), Appends())
    await log.append(SHARD, 1, 1, [b"a", b"b"])
    assert await log.last_position(SHARD) == 2
    await log.trim(SHARD, 1, 2)
    assert await log.read(SHARD, 0, 10) == [Entry(2, b"b")]
    await log.delete(SHARD)
    assert await log.last_position(SHARD) == 0
