"""The guarantees of every persister: on the share coordinator, and on the log of the partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import (
    Disposition,
    FailedRecords,
    JournalUpdate,
    SharePartitionKey,
    StateBatch,
    StateNote,
    StateWrite,
)
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.leases import names
from sharebroker_server.leases.names import Shard
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.default import DefaultPersister, PersisterSettings
from sharebroker_server.persister.port import Persister, SharePartitionState
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.routing.router import Peer
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch as records
from tests.unit.share_coordinator.harness import TOPIC, batch
from tests.unit.share_coordinator.service.process import Process

KEY = SharePartitionKey("g", TOPIC, 0)
OTHER_GROUP = SharePartitionKey("h:é", TOPIC, 0)
OTHER_PARTITION = SharePartitionKey("g", TOPIC, 1)
LEADER = 3
SETTINGS = PersisterSettings(call_timeout=2.0, metadata_lag=0.0)
NOTES = (
    batch(5, 5, 0)._replace(note=StateNote(10**16)),
    batch(6, 6, 0)._replace(note=StateNote(10**16, "@m", 5)),
    batch(7, 9, 4),
)
JOURNAL = JournalUpdate((FailedRecords(7, 9, Disposition.REJECTED, 1, 7, "m", "why"),), 9)


@dataclass
class PersisterFixture:
    """A persister, and how its state is loaded by another owner."""

    persister: Persister
    fail_over: Callable[[], Awaitable[Persister]]

    async def written(self, key: SharePartitionKey, *batches: StateBatch, **fields: Any) -> None:
        await self.persister.write(key, change(*batches, **fields))


def change(
    *batches: StateBatch,
    start: int = -1,
    count: int = -1,
    epochs: tuple[int, int] = (1, LEADER),
    failed: JournalUpdate | None = None,
) -> StateWrite:
    return StateWrite(*epochs, start, count, batches, failed)


class _Coordinators:
    """Finds the share coordinator of this process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> Shard:
        if self._process.in_log:
            return names.partition(topic_id, partition)
        return self._process.servicer._commands.route(group_id, topic_id, partition)[1]

    async def share_coordinator(self, shard: Shard) -> Peer[Any]:
        return Peer(ClusterMember("1/1", 1, frozenset(), ""), self._process.stub)

    def local_states(self, shard: Shard) -> Any:
        return self._process.servicer

    def forget_share_coordinator(self, shard: Shard) -> None:
        """There is no other."""


async def _on_coordinator() -> tuple[PersisterFixture, Callable[[], Awaitable[None]]]:
    process = Process()
    await process.start()
    for partition in range(2):
        await process.raise_lease(partition, LEADER)
    persister = DefaultPersister(_Coordinators(process), SETTINGS)

    async def fail_over() -> Persister:
        for shard in process.host.held():
            shard._fail("on demand")
            shard._wake()
        await eventually(lambda: all(s.state is ShardState.ACTIVE for s in process.host.held()))
        return persister

    return PersisterFixture(persister, fail_over), process.holder.stop


async def _on_log() -> tuple[PersisterFixture, Callable[[], Awaitable[None]]]:
    process = Process()
    process.in_log.add(TOPIC)
    await process.start()
    for partition in range(2):
        await process.raise_lease(partition, LEADER)
    lease = Lease(epoch=LEADER)
    store = MemoryRecordStore(lambda _: lease.epoch)
    logs: list[PartitionLog] = []

    async def opened() -> Persister:
        states = process.states
        for log in logs:
            await states.close(log.partition)
            await log.close()
        logs.clear()
        for partition in range(2):
            log = await PartitionLog.open(names.partition(TOPIC, partition), lease.epoch, store, lease)
            await log.append(records(2))
            states.open(log)
            logs.append(log)
        shards = [states.shard(log.partition) for log in logs]
        await eventually(lambda: all(shard.state is ShardState.ACTIVE for shard in shards))
        return DefaultPersister(_Coordinators(process), SETTINGS)

    async def close() -> None:
        for log in logs:
            await process.states.close(log.partition)
            await log.close()
        await process.holder.stop()

    return PersisterFixture(await opened(), opened), close


@pytest.fixture(params=[_on_coordinator, _on_log], ids=["coordinator", "log"])
async def fixture(request: pytest.FixtureRequest) -> AsyncIterator[PersisterFixture]:
    made, close = await request.param()
    yield made
    await close()


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value.code


async def test_state_is_read_as_it_was_written(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 1, 4)
    await fixture.written(KEY, *NOTES, start=5, count=3, failed=JOURNAL)
    expected = SharePartitionState(1, 5, NOTES)
    assert await fixture.persister.read(KEY, LEADER) == expected
    assert await (await fixture.fail_over()).read(KEY, LEADER) == expected


async def test_writes_combine_over_deltas_and_checkpoints(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 1, 0)
    for offset in range(10):
        await fixture.written(KEY, batch(2 * offset, 2 * offset))
        await fixture.written(KEY, batch(2 * offset + 1, 2 * offset + 1, 0), start=offset)
    expected = await fixture.persister.read(KEY, LEADER)
    assert expected.start_offset == 9
    assert expected.batches[:2] == (batch(9, 9, 0), batch(10, 10))
    assert await (await fixture.fail_over()).read(KEY, LEADER) == expected


async def test_groups_and_partitions_have_states_of_their_own(fixture: PersisterFixture) -> None:
    for number, key in enumerate((KEY, OTHER_GROUP, OTHER_PARTITION), 1):
        await fixture.persister.initialize(key, number, number)
        await fixture.written(key, batch(10 * number, 10 * number), epochs=(number, LEADER))
    persister = await fixture.fail_over()
    for number, key in enumerate((KEY, OTHER_GROUP, OTHER_PARTITION), 1):
        expected = SharePartitionState(number, number, (batch(10 * number, 10 * number),))
        assert await persister.read(key, LEADER) == expected


async def test_writes_begun_together_have_one_outcome_each(fixture: PersisterFixture) -> None:
    for key in (KEY, OTHER_GROUP, OTHER_PARTITION):
        await fixture.persister.initialize(key, 2, 0)
    old, new = change(batch(1, 1), epochs=(1, LEADER)), change(batch(1, 1), epochs=(2, LEADER))
    for keys in ([KEY, OTHER_GROUP, OTHER_PARTITION], [KEY]):
        by_shard: dict[Shard, list[tuple[SharePartitionKey, StateWrite]]] = {}
        for key in keys:
            by_shard.setdefault(fixture.persister.shard(key), []).append((key, old if key == KEY else new))
        for shard, changes in by_shard.items():
            begun = fixture.persister.begin(shard, changes)
            assert begun is not None
            failed = [isinstance(outcome, KafkaError) for outcome in await begun]
            assert failed == [key == KEY for key, _ in changes]


async def test_earlier_leaders_and_earlier_states_are_fenced(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 5, 0)
    await fixture.persister.read(KEY, LEADER)
    assert await code_of(fixture.persister.read(KEY, LEADER - 1)) is ErrorCode.FENCED_LEADER_EPOCH
    fenced = fixture.written(KEY, epochs=(5, LEADER - 1))
    assert await code_of(fenced) is ErrorCode.FENCED_LEADER_EPOCH
    assert await code_of(fixture.written(KEY, epochs=(4, LEADER))) is ErrorCode.FENCED_STATE_EPOCH
    assert await code_of(fixture.persister.initialize(KEY, 4, 0)) is ErrorCode.FENCED_STATE_EPOCH
    assert await code_of(fixture.persister.delete(KEY, 4)) is ErrorCode.FENCED_STATE_EPOCH
    summary = await (await fixture.fail_over()).read_summary(KEY)
    assert (summary.state_epoch, summary.leader_epoch) == (5, LEADER)


async def test_state_that_is_not_initialised_is_neither_read_nor_written(fixture: PersisterFixture) -> None:
    assert await code_of(fixture.persister.read(KEY, LEADER)) is ErrorCode.INVALID_REQUEST
    assert await code_of(fixture.written(KEY, batch(1, 1))) is ErrorCode.INVALID_REQUEST
    assert (await fixture.persister.read_summary(KEY)).start_offset == -1


async def test_a_repeated_initialisation_keeps_acknowledgements(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 1, 0)
    await fixture.written(KEY, batch(3, 3))
    await fixture.persister.initialize(KEY, 2, 0, since_epoch=1)
    persister = await fixture.fail_over()
    assert await persister.read(KEY, LEADER) == SharePartitionState(2, 0, (batch(3, 3),), kept_since=1)
    await persister.initialize(KEY, 3, 7)
    assert await persister.read(KEY, LEADER) == SharePartitionState(3, 7, ())


async def test_state_after_a_deletion_starts_empty(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 1, 0)
    await fixture.persister.initialize(OTHER_GROUP, 1, 0)
    await fixture.written(KEY, batch(3, 3))
    await fixture.persister.delete(KEY, 1)
    await fixture.persister.delete(KEY, 1)
    persister = await fixture.fail_over()
    assert await code_of(persister.read(KEY, LEADER)) is ErrorCode.INVALID_REQUEST
    assert await persister.read(OTHER_GROUP, LEADER) == SharePartitionState(1, 0, ())
    await persister.initialize(KEY, 1, 2)
    await persister.write(KEY, change(batch(9, 9)))
    fixture.persister = persister
    persister = await fixture.fail_over()
    assert await persister.read(KEY, LEADER) == SharePartitionState(1, 2, (batch(9, 9),))


async def test_a_summary_counts_records_by_state(fixture: PersisterFixture) -> None:
    await fixture.persister.initialize(KEY, 1, 0)
    await fixture.written(KEY, *NOTES, start=5, count=3)
    persister = await fixture.fail_over()
    summary = await persister.read_summary(KEY)
    assert summary == (1, 0, 5, 3, 1, 1, 0)


async def test_concurrent_writes_of_groups_are_all_durable(fixture: PersisterFixture) -> None:
    keys = [SharePartitionKey(f"g{number}", TOPIC, 0) for number in range(20)]
    await asyncio.gather(*(fixture.persister.initialize(key, 1, 0) for key in keys))
    await asyncio.gather(*(fixture.written(key, batch(at, at)) for at in range(5) for key in keys))
    persister = await fixture.fail_over()
    for key in keys:
        assert (await persister.read(key, LEADER)).batches == (batch(0, 4),)
