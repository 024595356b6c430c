"""What share groups see of transactions, and that what they do not see does not stay behind them."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.share_partition_leader.core.record_states import RecordStates
from sharebroker_server.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.world import ACCEPT, RELEASE, TOPIC, World, code

COMMITTED = "read_committed"
RECORD_LIMIT = 1
GAP = 0


async def isolate(world: World, level: str = COMMITTED) -> None:
    await world.configure("share.isolation.level", level)


async def write(world: World, producer: int = 7, count: int = 1) -> None:
    """A batch in a producer's transaction."""
    log = (await world.leadership.led(TOPIC, 0)).log
    known = log.transactions.producer(producer)
    sequence = known.batches[-1].last_sequence + 1 if known else 0
    data = batch(count, producer=(producer, 0, sequence), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))


async def end(world: World, producer: int = 7, *, commit: bool) -> None:
    log = (await world.leadership.led(TOPIC, 0)).log
    await log.end_transaction(Marker(producer, 0, 1, commit))


async def transact(world: World, *outcomes: bool, count: int = 1) -> None:
    """Transactions one after the other, each with one batch: `count` offsets and one for the marker."""
    for commit in outcomes:
        await write(world, count=count)
        await end(world, commit=commit)


async def acquired(world: World, most: int = 500, **fields: Any) -> list[tuple[int, int]]:
    (answer,) = await world.acquire(most, **fields)
    assert code(answer) is ErrorCode.NONE
    return [(run.first_offset, run.last_offset) for run in answer.acquired]


async def test_markers_are_never_handed_out(world: World) -> None:
    await transact(world, True, False)
    assert await acquired(world) == [(0, 0), (2, 2)]


async def test_what_is_aborted_is_never_handed_out_to_who_reads_what_is_committed(world: World) -> None:
    await isolate(world)
    await transact(world, True, False, True, count=2)
    (answer,) = await world.acquire()
    assert [(run.first_offset, run.last_offset) for run in answer.acquired] == [(0, 1), (6, 7)]
    log = (await world.leadership.led(TOPIC, 0)).log
    needed = [b.data for b in await log.read(0, 10**6) if b.base_offset in (0, 6)]
    assert answer.record_batches == b"".join(needed)


async def test_transactions_side_by_side_are_told_apart(world: World) -> None:
    await isolate(world)
    for producer in (7, 8, 7):
        await write(world, producer)
    await end(world, 8, commit=True)
    await end(world, 7, commit=False)
    await world.publish(1)
    assert await acquired(world) == [(1, 1), (5, 5)]


async def test_what_nobody_is_to_get_does_not_stay_behind(world: World) -> None:
    """The start offset that is written moves past it: lag becomes 0."""
    await transact(world, True)
    assert await acquired(world) == [(0, 0)]
    assert code(await world.acknowledge((0, 0, ACCEPT))) is ErrorCode.NONE
    assert (await world.start_offset(), world.persister.written) == (2, 1)
    await write(world)
    assert await acquired(world) == [(2, 2)]
    assert code(await world.acknowledge((2, 2, ACCEPT))) is ErrorCode.NONE
    assert await world.start_offset() == 3
    await end(world, commit=True)
    assert await acquired(world) == []
    await eventually(lambda: world.persister.written == 3)
    assert await world.start_offset() == 4


async def test_aborted_records_do_not_stay_behind_either(world: World) -> None:
    await isolate(world)
    await transact(world, False, False, count=5)
    assert await acquired(world) == []
    await eventually(lambda: world.persister.written == 1)
    assert await world.start_offset() == 12


async def test_the_start_is_told_when_the_last_acknowledgement_was_under_way(world: World) -> None:
    await transact(world, True)
    await acquired(world, most=1)
    world.persister.open.clear()
    acknowledging = asyncio.create_task(world.acknowledge((0, 0, ACCEPT)))
    await eventually(lambda: world.persister.writes)
    assert await acquired(world) == []
    world.persister.open.set()
    assert code(await acknowledging) is ErrorCode.NONE
    await eventually(lambda: world.persister.written == 2)
    assert await world.start_offset() == 2


async def test_nothing_is_written_for_a_marker_while_other_writes_will_tell(world: World) -> None:
    await transact(world, True)
    await world.publish(1)
    assert await acquired(world) == [(0, 0), (2, 2)]
    await world.acquire()
    assert not world.persister.writes


async def test_an_open_transaction_is_waited_for(world: World) -> None:
    await isolate(world)
    await world.publish(1)
    await write(world)
    await world.publish(1)
    assert await acquired(world) == [(0, 0)]
    waiting = asyncio.create_task(acquired(world, max_wait_ms=10**6))
    share_partition = await world.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await end(world, commit=True)
    assert await waiting == [(1, 2)]


async def test_a_transaction_that_is_aborted_lets_the_rest_through(world: World) -> None:
    await isolate(world)
    await write(world, count=3)
    await world.publish(1)
    waiting = asyncio.create_task(acquired(world, max_wait_ms=10**6))
    share_partition = await world.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await end(world, commit=False)
    assert await waiting == [(3, 3)]


async def test_a_large_aborted_batch_is_passed_at_once(world: World) -> None:
    await isolate(world)
    await world.publish(1)
    await transact(world, False, count=400)
    await world.publish(1)
    with patch.object(RecordStates, "acquire", autospec=True, side_effect=RecordStates.acquire) as acquire:
        for offset in (0, 402):
            assert await acquired(world, 1, acquire_mode=RECORD_LIMIT) == [(offset, offset)]
    assert acquire.call_count <= 4


async def test_a_full_window_waits_before_what_it_must_not_see(world: World) -> None:
    await isolate(world)
    await world.configure("share.partition.max.record.locks", "100")
    await world.publish(100)
    await transact(world, False)
    await acquired(world)
    assert await acquired(world, member="m2") == []
    assert code(await world.acknowledge((0, 99, ACCEPT))) is ErrorCode.NONE
    assert await acquired(world) == []
    await eventually(lambda: world.persister.written == 2)
    assert await world.start_offset() == 102


async def test_what_left_the_memory_is_judged_alike(world: World) -> None:
    await isolate(world)
    await transact(world, False, True)
    await world.chill()
    assert await acquired(world) == [(2, 2)]


async def test_a_change_of_the_level_counts_for_what_is_not_handed_out_yet(world: World) -> None:
    await transact(world, False, False)
    assert await acquired(world, 1) == [(0, 0)]
    assert code(await world.acknowledge((0, 0, RELEASE))) is ErrorCode.NONE
    await isolate(world)
    assert await acquired(world) == []
    await transact(world, False)
    await isolate(world, "read_uncommitted")
    assert await acquired(world) == [(4, 4)]


async def test_who_waits_at_an_open_transaction_gets_it_when_the_level_changes(world: World) -> None:
    await isolate(world)
    await write(world)
    waiting = asyncio.create_task(acquired(world, max_wait_ms=10**6))
    share_partition = await world.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await isolate(world, "read_uncommitted")
    assert await waiting == [(0, 0)]


async def test_a_write_that_fails_is_not_tried_for_ever(world: World) -> None:
    await isolate(world)
    await transact(world, False)
    world.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert await acquired(world) == []
    await eventually(lambda: world.persister.writes)
    await asyncio.sleep(0.01)
    assert len(world.persister.writes) == 1
    await transact(world, True)
    assert await acquired(world) == [(2, 2)]


@pytest.mark.parametrize("level", ["read_uncommitted", COMMITTED])
async def test_who_knows_of_markers_gets_them_to_acknowledge_as_gaps(world: World, level: str) -> None:
    await isolate(world, level)
    await transact(world, True, False)
    expected = [(0, 1), (3, 3)] if level == COMMITTED else [(0, 3)]
    assert await acquired(world, with_markers=True) == expected
    gaps = [(0, 0, ACCEPT), (1, 1, GAP), *([(2, 2, ACCEPT)] if level != COMMITTED else []), (3, 3, GAP)]
    assert code(await world.acknowledge(*gaps)) is ErrorCode.NONE
    assert await world.start_offset() == 4
