"""A partition log on a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch

NAME = "partition:t:0"
NOW = 1_700_000_000.0
SIZE = len(batch())


class Harness:
    """A log on a store in memory, with a lease that tests control."""

    def __init__(self) -> None:
        self.lease = Lease()
        self.store = MemoryRecordStore(epoch_of=lambda _: self.lease.epoch)
        self.now = NOW

    async def open(self, settings: LogSettings | None = None) -> PartitionLog:
        return await PartitionLog.open(
            NAME, self.lease.epoch, self.store, self.lease, settings, lambda: self.now
        )


async def error_of(call: Awaitable[Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    return (await error_of(call)).code


async def offset_since(log: PartitionLog, timestamp: int) -> int | None:
    found = await log.offset_for_timestamp(timestamp)
    return None if found is None else found.offset


def offsets(batches: list[Any] | None) -> list[tuple[int, int]]:
    assert batches is not None
    return [(b.base_offset, b.last_offset) for b in batches]


async def settled() -> None:
    """Runs every task until only held appends remain."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until_open(log: PartitionLog) -> None:
    await eventually(lambda: log.phase is LogPhase.OPEN)
