"""Shards on the logs of partitions: loads, failures, retention, and records of producers in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.share_index import ShareIndex
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import (
    CheckpointStates,
    Delete,
    Initialize,
    Inspect,
    Inspection,
)
from sharebroker_server.share_coordinator.service.inspection import checkpoint_offsets, inspect
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates
from sharebroker_server.share_coordinator.store.control_codec import MOST_DELTAS
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch as records
from tests.unit.share_coordinator.harness import KEY, TOPIC, batch, write

OTHER = SharePartitionKey("h", TOPIC, 0)
NAME = names.partition(TOPIC, 0)
SETTINGS = replace(RuntimeSettings(), backoff_first=0.001, backoff_most=0.001)


class Partition:
    """A led partition with its log and shard, opened again at will."""

    def __init__(self) -> None:
        self.lease = Lease()
        self.store = MemoryRecordStore(lambda _: self.lease.epoch)
        self.log: PartitionLog

    async def open(self) -> None:
        self.log = await PartitionLog.open(NAME, self.lease.epoch, self.store, self.lease)
        self.states = PartitionStates(CheckpointRules(), SETTINGS, lambda _: True)
        self.states.open(self.log)
        self.shard = self.states.shard(NAME)
        await self.active()

    async def active(self) -> None:
        await eventually(lambda: self.shard.state is ShardState.ACTIVE)

    async def reopen(self) -> None:
        await self.states.close(NAME)
        await self.log.close()
        await self.open()

    async def runs(self, key: SharePartitionKey = KEY) -> list[StateBatch] | None:
        reply = await self.shard.submit(Inspect(key))
        assert isinstance(reply, Inspection)
        return None if reply.state is None else reply.state.runs


@pytest.fixture
async def partition() -> AsyncIterator[Partition]:
    partition = Partition()
    await partition.open()
    for key in (KEY, OTHER):
        await partition.shard.submit(Initialize(key, 1, 0))
    yield partition
    await partition.states.close(NAME)
    await partition.log.close()


async def code_of(written: asyncio.Future[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await written
    return caught.value.code


async def test_state_and_records_of_producers_share_a_log(partition: Partition) -> None:
    await asyncio.gather(
        partition.log.append(records(3)),
        partition.shard.submit(write(batch(0, 1))),
        partition.log.append(records(2)),
        partition.shard.submit(write(batch(2, 4), key=OTHER)),
    )
    read = await partition.log.read(0, 1 << 20)
    assert sum(each.last_offset - each.base_offset + 1 for each in read) == 5
    await partition.reopen()
    assert (await partition.runs(), await partition.runs(OTHER)) == ([batch(0, 1)], [batch(2, 4)])


async def test_deleting_all_records_moves_the_state_of_every_group(partition: Partition) -> None:
    await partition.shard.submit(write(batch(5, 5)))
    await partition.log.append(records(3))
    end = partition.log.log_end_offset
    assert await partition.log.delete_records(-1) == end
    assert partition.log.transactions.share.earliest() == end
    await partition.reopen()
    assert (await partition.runs(), await partition.runs(OTHER)) == ([batch(5, 5)], [])


async def test_writes_continue_after_one_of_unknown_outcome(partition: Partition) -> None:
    for fault, offset in ((Fault.LOST_UNKNOWN, 1), (Fault.DONE_UNKNOWN, 3)):
        partition.store.fail_next_append(fault)
        failed = partition.shard.submit(write(batch(offset, offset)))
        assert await code_of(failed) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await eventually(lambda: partition.log.phase is LogPhase.OPEN)
        await partition.active()
        await partition.shard.submit(write(batch(offset + 10, offset + 10)))
    expected = [batch(3, 3), batch(11, 11), batch(13, 13)]
    assert await partition.runs() == expected
    await partition.reopen()
    assert await partition.runs() == expected


async def test_writes_continue_after_the_log_recovered_for_a_producer(partition: Partition) -> None:
    partition.store.fail_next_append(Fault.LOST_UNKNOWN)
    with pytest.raises(KafkaError):
        await partition.log.append(records(1))
    await eventually(lambda: partition.log.phase is LogPhase.OPEN)
    await partition.shard.submit(write(batch(1, 1)))
    await partition.reopen()
    assert await partition.runs() == [batch(1, 1)]


async def test_a_former_leader_is_fenced(partition: Partition) -> None:
    partition.lease.epoch += 1
    assert await code_of(partition.shard.submit(write(batch(1, 1)))) is ErrorCode.NOT_COORDINATOR


async def test_a_deleted_group_leaves_no_name_beside_the_log(partition: Partition) -> None:
    await partition.shard.submit(write(batch(1, 1)))
    await partition.shard.submit(Delete(KEY, 1))
    await eventually(lambda: not partition.log.transactions.share.deleted)
    stored = ShareIndex.load(await partition.store.snapshots(NAME))
    assert {entry.group_id for entry in stored.entries()} == {OTHER.group_id}


async def test_a_partition_is_claimed_before_its_state_is_used() -> None:
    partition, claims = Partition(), list[tuple[str, int]]()
    partition.states = PartitionStates(CheckpointRules(), SETTINGS, lambda _: True)

    async def claim(topic_id: str, number: int) -> None:
        claims.append((topic_id, number))
        if number:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.log = await PartitionLog.open(NAME, 1, partition.store, partition.lease)
        partition.states.open(partition.log)

    partition.states.claim = claim
    shard = await partition.states.claimed(TOPIC, 0)
    assert shard is await partition.states.claimed(TOPIC, 0) is partition.states.shard(NAME)
    with pytest.raises(KafkaError) as caught:
        await partition.states.claimed(TOPIC, 1)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    assert claims == [(TOPIC, 0), (TOPIC, 1)]
    await partition.states.close(NAME)
    await partition.log.close()


async def test_stored_records_begin_at_the_newest_checkpoint(partition: Partition) -> None:
    await partition.log.append(records(2))
    await partition.shard.submit(write(batch(1, 1)))
    await partition.shard.submit(write(batch(3, 3)))
    stored = await partition.states.stored(KEY)
    assert [offset for offset, _ in stored] == [0, 4, 5]
    shown = await inspect(partition.shard, KEY, partial(partition.states.stored, KEY))
    assert shown.consistent
    assert [(r.position, r.kind) for r in shown.records] == [(0, "checkpoint"), (4, "delta"), (5, "delta")]


async def test_state_of_evicted_batches_that_the_store_lost_is_written_again(partition: Partition) -> None:
    log = partition.log
    await partition.shard.submit(write(batch(1, 1)))
    earlier = deepcopy(partition.store._partitions)
    await partition.shard.submit(write(batch(3, 3)))
    await partition.shard.submit(write(batch(5, 5), key=OTHER))
    await log.append(records(1))
    log._state.hot_cache.drop_before(log.log_end_offset)
    partition.store._partitions = earlier
    end = log.log_end_offset
    await log.recheck()
    await eventually(lambda: log.log_end_offset == end + 2)
    await partition.reopen()
    assert (await partition.runs(), await partition.runs(OTHER)) == (
        [batch(1, 1), batch(3, 3)],
        [batch(5, 5)],
    )


async def test_a_group_has_few_entries_in_the_index(partition: Partition) -> None:
    for offset in range(3 * MOST_DELTAS):
        await partition.shard.submit(write(batch(2 * offset, 2 * offset)))
    stored = ShareIndex.load(await partition.store.snapshots(NAME))
    assert len([*stored.entries()]) == 2 + MOST_DELTAS
    expected = await partition.runs()
    await partition.reopen()
    assert await partition.runs() == expected


async def test_the_newest_and_the_earliest_checkpoints_are_shown(partition: Partition) -> None:
    await partition.shard.submit(CheckpointStates((KEY,)))
    shown = checkpoint_offsets(partition.states.index(NAME), KEY.group_id)
    assert (shown.share_checkpoint_offset, shown.earliest_share_offset) == (2, 1)
    missing = checkpoint_offsets(ShareIndex(), KEY.group_id)
    assert not missing.HasField("share_checkpoint_offset")
    assert not missing.HasField("earliest_share_offset")


async def test_a_partition_without_state_here_has_no_shard(partition: Partition) -> None:
    with pytest.raises(KafkaError) as caught:
        partition.states.shard(names.partition(TOPIC, 1))
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
