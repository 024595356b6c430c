"""The leader epoch of a read is at most that of the partition's lease."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.unit.share_coordinator.service.process import Process


async def codes(process: Process, *partitions: int, leader_epoch: int = 1) -> list[ErrorCode]:
    """Reads partitions as a leader; returns the code of each."""
    read = await process.read(*partitions, leader_epoch=leader_epoch)
    return [ErrorCode(part.error_code) for part in read]


@pytest.mark.parametrize("leader_epoch", [2, 1000, 2**31 - 1])
async def test_a_read_above_the_lease_fences_no_leader(process: Process, leader_epoch: int) -> None:
    await process.initialize(0)
    [code] = await codes(process, 0, leader_epoch=leader_epoch)
    assert code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code.retriable
    assert await codes(process, 0) == [ErrorCode.NONE]


async def test_a_new_leader_reads_once_it_has_the_lease(process: Process) -> None:
    await process.initialize(0)
    await process.read(0)
    assert await codes(process, 0, leader_epoch=2) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    await process.raise_lease(0, to=2)
    assert await codes(process, 0, leader_epoch=2) == [ErrorCode.NONE]
    assert await codes(process, 0, leader_epoch=1) == [ErrorCode.FENCED_LEADER_EPOCH]


async def test_without_a_lease_no_read_raises_the_leader_epoch(process: Process) -> None:
    await process.initialize(0)
    await process.release_lease(0)
    assert await codes(process, 0) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


async def test_an_unreadable_lease_is_a_retriable_error(process: Process) -> None:
    await process.initialize(0, 1)
    await process.read(0)
    process.leases.away = True
    # The lease of the stored leader epoch is not read.
    assert await codes(process, 0, 1) == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    process.leases.away = False
    assert await codes(process, 1) == [ErrorCode.NONE]
