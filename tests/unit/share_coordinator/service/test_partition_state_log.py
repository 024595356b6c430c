"""The log of a partition as the log of a shard: positions, pages, and the meaning of failures."""

from __future__ import annotations

from typing import Final

import pytest

from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareDelta, ShareRecord
from sharebroker_server.share_coordinator.service.partition_state_log import LogLease, PartitionStateLog
from sharebroker_server.share_coordinator.store.control_codec import ControlPayload, ControlRecordCodec
from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
)
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch as records
from tests.unit.share_coordinator.harness import KEY, TOPIC, batch

NAME: Final = f"partition:{TOPIC}:0"
CODEC: Final = ControlRecordCodec(TOPIC, 0)


def payloads(number: int) -> list[ControlPayload]:
    """A checkpoint and deltas."""
    deltas = [ShareDelta(KEY, at, 0, -1, -1, -1, (batch(at, at),), 1) for at in range(number - 1)]
    written: list[ShareRecord] = [ShareCheckpoint(KEY, 0, 1, 0, 0, -1, 1, 1, ()), *deltas]
    return [CODEC.encode(each) for each in written]


class Opened:
    """A partition's log, and the same as the log of a shard."""

    def __init__(self) -> None:
        self.lease = Lease()
        self.store = MemoryRecordStore(lambda _: self.lease.epoch)
        self.log: PartitionLog
        self.shard: PartitionStateLog

    async def open(self) -> None:
        self.log = await PartitionLog.open(NAME, self.lease.epoch, self.store, self.lease)
        self.shard = PartitionStateLog(self.log)


@pytest.fixture
async def opened() -> Opened:
    opened = Opened()
    await opened.open()
    return opened


async def test_records_are_read_in_pages_by_positions_without_gaps(opened: Opened) -> None:
    written = payloads(5)
    await opened.shard.append(NAME, 1, 1, written[:2])
    await opened.log.append(records(3))
    await opened.shard.append(NAME, 1, 3, written[2:])
    await opened.open()
    first = await opened.shard.read(NAME, 0, 3)
    second = await opened.shard.read(NAME, 3, 3)
    assert [(each.position, each.payload) for each in (*first, *second)] == list(enumerate(written, 1))
    assert await opened.shard.read(NAME, 5, 3) == []
    assert await opened.shard.last_position(NAME) == 5


async def test_an_append_at_another_position_writes_nothing(opened: Opened) -> None:
    with pytest.raises(LogOutOfOrder, match="0 control records, not 1"):
        await opened.shard.append(NAME, 1, 2, payloads(1))
    assert opened.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.NOT_WRITTEN, LogNotWritten),
        (Fault.LOST_UNKNOWN, LogOutcomeUnknown),
        (Fault.DONE_UNKNOWN, LogOutcomeUnknown),
    ],
)
async def test_failures_of_the_store_keep_their_meaning(
    opened: Opened, fault: Fault, error: type[LogError]
) -> None:
    opened.store.fail_next_append(fault)
    with pytest.raises(error):
        await opened.shard.append(NAME, 1, 1, payloads(1))
    assert await opened.shard.last_position(NAME) == 0


async def test_a_closed_log_fences_its_shard(opened: Opened) -> None:
    await opened.log.close()
    with pytest.raises(LogFenced):
        await opened.shard.append(NAME, 1, 1, payloads(1))
    lease = LogLease(opened.log)
    assert not lease.holds(1)
    with pytest.raises(LeaseLost):
        await lease.reclaim()


async def test_the_lease_is_that_of_the_log_whatever_its_epoch(opened: Opened) -> None:
    lease = LogLease(opened.log)
    assert lease.holds(1)
    opened.lease.refusals.append(LeasesUnavailable("away"))
    opened.store.fail_next_append(Fault.LOST_UNKNOWN)
    with pytest.raises(LogOutcomeUnknown):
        await opened.shard.append(NAME, 1, 1, payloads(1))
    assert opened.log.phase is LogPhase.RECOVERING
    with pytest.raises(LeasesUnavailable):
        await lease.reclaim()
    await eventually(lambda: opened.log.phase is LogPhase.OPEN)
    assert await lease.reclaim() == opened.log.epoch == 2
    assert lease.holds(1)
