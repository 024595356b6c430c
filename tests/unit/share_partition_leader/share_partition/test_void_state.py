"""Share state that refers to records which another cluster lost: it is removed before any delivery."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateWrite
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.leases import names
from sharebroker_server.persister.port import SharePartitionState
from sharebroker_server.record_log.log_reader import LogReader
from sharebroker_server.share_partition_leader.core.events import LoadedState
from sharebroker_server.share_partition_leader.share_partition.reading import load_state, without_void
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, TOPIC, Harness, code
from tests.unit.upstream_log.harness import running as running_cluster

KEY = SharePartitionKey(GROUP, TOPIC, 0)
DONE = RecordState.ACKNOWLEDGED


def runs(*spans: tuple[int, int]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(first, last, DONE, 1) for first, last in spans)


class LosingLog:
    """A log that lost the records from `void` on, for leaders before `epoch`."""

    partition = names.partition(TOPIC, 0)
    loses_records = True
    log_start_offset, records_end_offset = 0, 9

    async def refresh(self) -> None:
        """The bounds are current."""

    def __init__(self, epoch: int, void: int | None) -> None:
        self.epoch = epoch
        self._void = void

    async def void_from(self, loaded_under: int, end: int) -> int | None:
        return self._void if loaded_under < self.epoch else None


@pytest.mark.parametrize(
    ("void", "start", "left"),
    [
        (30, 10, runs((12, 14), (20, 29))),
        (25, 10, runs((12, 14), (20, 24))),
        (15, 10, runs((12, 14))),
        (12, 10, ()),
        (10, 10, ()),
        (4, 4, ()),
    ],
)
def test_state_ends_where_the_lost_records_begin(void: int, start: int, left: tuple[StateBatch, ...]) -> None:
    state = SharePartitionState(1, 10, runs((12, 14), (20, 29)))
    assert without_void(state, void) == SharePartitionState(1, start, left)


async def lead(harness: Harness, epoch: int) -> None:
    """Claims the lease until it has an epoch."""
    while harness.leases.epoch_of(LosingLog.partition) < epoch:
        await harness.leases.claim(LosingLog.partition, "1/1", 1e6, force=True)


async def store(harness: Harness, start: int, *spans: tuple[int, int], epoch: int = 3) -> None:
    """Stores a state as the leader with this epoch, which loads it before."""
    await lead(harness, epoch)
    await harness.persister.read(KEY, epoch)
    await harness.persister.write(KEY, StateWrite(1, epoch, start, 0, runs(*spans)))


async def load(harness: Harness, epoch: int, void: int | None) -> LoadedState:
    await lead(harness, epoch)
    log = cast("LogReader", LosingLog(epoch, void))
    return await load_state(harness.persister, log, GROUP, GroupConfig())


@pytest.mark.parametrize(
    ("void", "start", "left"),
    [
        (15, 10, runs((12, 14))),
        (4, 4, ()),
        (30, 10, runs((12, 14), (20, 29))),
        (None, 10, runs((12, 14), (20, 29))),
    ],
)
async def test_lost_records_leave_the_stored_state(
    harness: Harness, void: int | None, start: int, left: tuple[StateBatch, ...]
) -> None:
    await store(harness, 10, (12, 14), (20, 29))
    found = await load(harness, 5, void)
    assert (found.start_offset, found.batches) == (start, left)
    summary = await harness.persister.read_summary(KEY)
    is_cut = left != runs((12, 14), (20, 29))  # only then the state was written, with a correct count
    finished = sum(run.last - run.first + 1 for run in left) if is_cut else 0
    assert (summary.start_offset, summary.leader_epoch) == (start, 5)
    assert summary.delivery_complete_count == finished
    again = await load(harness, 6, None)
    assert (again.start_offset, again.batches) == (start, left)


async def test_a_leader_that_fails_in_between_leaves_it_to_the_next(harness: Harness) -> None:
    await store(harness, 10, (12, 14))
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    with pytest.raises(KafkaError):
        await load(harness, 5, 4)
    assert (await harness.persister.read_summary(KEY)).leader_epoch == 3
    assert (await load(harness, 6, 4)).start_offset == 4


async def test_state_that_no_leader_loaded_keeps_its_start(harness: Harness) -> None:
    await harness.initialize(state_epoch=2, start=10)
    assert (await load(harness, 5, 4)).start_offset == 10


async def test_state_without_a_start_is_not_written(harness: Harness) -> None:
    await harness.persister.delete(KEY, 1)
    await harness.initialize(state_epoch=2, start=-1)
    await lead(harness, 3)
    await harness.persister.read(KEY, 3)
    assert (await load(harness, 5, 4)).start_offset == 9  # by share.auto.offset.reset
    assert await harness.start_offset() == -1
    assert not harness.persister.writes


async def test_a_load_that_outlives_a_truncation_is_dropped() -> None:
    async with running_cluster() as upstream:
        harness = Harness(lambda store: UpstreamLogs(upstream.client, store))
        await harness.start()
        read, reading, release = harness.persister.read, asyncio.Event(), asyncio.Event()

        async def stubborn(key: SharePartitionKey, epoch: int) -> SharePartitionState:
            """Reads the state; a cancellation is lost, as in a gRPC call that fails at that moment."""
            found = await read(key, epoch)
            reading.set()
            while not release.is_set():
                with suppress(asyncio.CancelledError):
                    await release.wait()
            return found

        try:
            await harness.create_topic(name="t")
            for _ in range(4):
                upstream.cluster.append(batch(2))
            led = await harness.leadership.led(TOPIC, 0)
            await eventually(lambda: led.log.records_end_offset == 8)
            harness.persister.read = stubborn  # type: ignore[method-assign,assignment]
            acquiring = asyncio.create_task(harness.acquire(max_wait_ms=5000))
            await reading.wait()
            upstream.cluster.elect(1, keeps=4)
            await eventually(lambda: led.log.records_end_offset == 4)
            release.set()
            (part,) = await acquiring
            assert code(part) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert not led.ready
            (part,) = await harness.acquire(max_wait_ms=5000)
            assert [(each.first_offset, each.last_offset) for each in part.acquired] == [(0, 3)]
        finally:
            await harness.stop()


async def test_members_lose_their_locks_and_receive_the_new_records() -> None:
    async with running_cluster() as upstream:
        harness = Harness(lambda store: UpstreamLogs(upstream.client, store))
        await harness.start()
        try:
            await harness.create_topic(name="t")
            for _ in range(4):
                upstream.cluster.append(batch(2))
            (part,) = await harness.acquire(max_wait_ms=5000)
            assert [(each.first_offset, each.last_offset) for each in part.acquired] == [(0, 7)]
            assert code(await harness.acknowledge((0, 5, ACCEPT))) is ErrorCode.NONE
            upstream.cluster.elect(1, keeps=4)
            upstream.cluster.append(batch(1))
            log = (await harness.leadership.led(TOPIC, 0)).log
            await eventually(lambda: log.records_end_offset == 5)
            assert code(await harness.acknowledge((6, 7, ACCEPT))) is not ErrorCode.NONE
            (part,) = await harness.acquire(max_wait_ms=5000)
            assert [(each.first_offset, each.last_offset) for each in part.acquired] == [(4, 4)]
            assert code(await harness.acknowledge((4, 4, ACCEPT))) is ErrorCode.NONE
            assert await harness.start_offset() == 5
        finally:
            await harness.stop()
