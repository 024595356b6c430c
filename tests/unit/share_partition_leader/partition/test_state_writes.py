"""Writes of a share-partition: in order, one at a time, by a task where something has to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, SharePartitionKey, StateWrite
from sharebroker_server.persister.port import Begun, Changes
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.partition import SharePartition
from sharebroker_server.share_partition_leader.core.values import AcquireRequest, LoadedState
from sharebroker_server.share_partition_leader.core.values import SharePartitionSettings as Settings
from sharebroker_server.share_partition_leader.partition.state_writes import Turns, Writes, Written
from tests.unit.share_partition_leader.virtual_time import settle as turns

KEY = SharePartitionKey("g", "T" * 22, 3)
AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class State:
    """Where state is written to: what was begun stays under way until a test says how it ended."""

    def __init__(self) -> None:
        self.here = True
        self.turns = Turns(cast("Any", self))
        self.begun: list[Any] = []
        self.written: list[int] = []
        self.failure: Exception | None = None

    def due(self, writes: Writes) -> None:
        self.turns.add(7, KEY, writes)

    def begin(self, shard: int, changes: Changes) -> Begun | None:
        if not self.here:
            return None
        assert (shard, {key for key, _ in changes}) == (7, {KEY})
        starts = [change.start_offset for _, change in changes]
        self.begun.append((*starts, asyncio.get_running_loop().create_future()))
        return cast("Begun", self.begun[-1][-1])

    async def write(self, change: StateWrite, transitions: Sequence[Transition]) -> None:
        if self.failure is not None:
            raise self.failure
        self.written.append(change.start_offset)


class Bench:
    """A share-partition's core with ten acquired records, its writes, and what was heard of them."""

    def __init__(self, state: State | None = None) -> None:
        self.core = SharePartition(Settings(), LoadedState(1, 1, 0))
        self.core.acquire(AcquireRequest("m", 10, 10), 0, [(0, 9)], 1.0)
        self.state = state or State()
        self.heard: list[tuple[int, ErrorCode | None]] = []
        self.rests = 0
        self.writes = Writes(self.core, self.state, self._completed, self._rested)

    def accept(self, offset: int) -> None:
        transition = self.core.acknowledge("m", [AckBatch(offset, offset, (1,))], 1.0)
        assert transition is not None
        self.writes.add(transition, lambda error: self.heard.append((offset, error.code if error else None)))

    def _completed(self, written: Written) -> None:
        self.core.complete(written.transitions, written.error.code if written.error else None)
        for tell in written.done:
            tell(written.error)

    def _rested(self) -> None:
        self.rests += 1


async def test_what_comes_while_a_write_is_under_way_goes_out_together_next() -> None:
    bench = Bench()
    bench.accept(0)
    bench.accept(1)
    await turns()
    bench.accept(2)
    bench.accept(3)
    await turns()
    assert ([start for start, _ in bench.state.begun], bench.heard) == ([2], [])
    bench.state.begun[0][1].set_result([None])
    await turns()
    assert ([start for start, _ in bench.state.begun], bench.heard) == ([2, 4], [(0, None), (1, None)])
    assert (bench.writes.told, bench.writes.stored, bench.writes.busy, bench.rests) == (4, 2, True, 0)
    bench.state.begun[1][1].set_result([None])
    await turns()
    assert (bench.heard[2:], bench.writes.stored, bench.rests) == ([(2, None), (3, None)], 4, 1)
    assert (bench.writes.busy, bench.state.written) == (False, [])


def _refused(begun: Begun) -> None:
    begun.set_result([AWAY])


def _failed(begun: Begun) -> None:
    begun.set_exception(AWAY)


@pytest.mark.parametrize("end", [_refused, _failed, None])
async def test_what_cannot_be_written_at_once_is_written_by_a_task(
    end: Callable[[Begun], None] | None,
) -> None:
    bench = Bench()
    bench.state.here = end is not None
    bench.accept(0)
    await turns()
    if end is not None:
        end(bench.state.begun[0][1])
    await turns()
    assert (bench.state.written, bench.heard, bench.rests) == ([1], [(0, None)], 1)


@pytest.mark.parametrize(
    ("failure", "told"),
    [(AWAY, ErrorCode.COORDINATOR_NOT_AVAILABLE), (RuntimeError(), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
async def test_whoever_waits_hears_why_it_was_not_written(failure: Exception, told: ErrorCode) -> None:
    bench = Bench()
    bench.state.here, bench.state.failure = False, failure
    bench.accept(0)
    await turns()
    assert (bench.heard, bench.writes.stored, bench.writes.told) == ([(0, told)], 0, 1)
    bench.state.failure = None
    bench.accept(0)
    await turns()
    assert (bench.heard[1:], bench.writes.stored) == ([(0, None)], 1)


async def test_what_many_write_in_one_turn_goes_out_together_and_each_hears_of_its_own() -> None:
    first = Bench()
    others = [Bench(first.state), Bench(first.state)]
    for bench in (first, *others):
        bench.accept(0)
    others[0].writes.refuse(AWAY)
    await turns()
    ((*starts, begun),) = first.state.begun
    assert starts == [1, 1]
    begun.set_result([None, AWAY])
    first.state.failure = AWAY
    await turns()
    assert [bench.heard for bench in (first, *others)] == [[(0, None)], [(0, AWAY.code)], [(0, AWAY.code)]]
    assert [(bench.rests, bench.writes.stored) for bench in (first, *others)] == [(1, 1), (1, 0), (1, 0)]


async def test_who_hears_and_fails_keeps_it_from_nobody_else() -> None:
    def fails(error: KafkaError | None) -> None:
        raise RuntimeError

    first = Bench()
    second = Bench(first.state)
    transition = first.core.acknowledge("m", [AckBatch(0, 0, (1,))], 1.0)
    assert transition is not None
    first.writes.add(transition, fails)
    second.accept(0)
    await turns()
    first.state.begun[0][-1].set_result([None, None])
    await turns()
    assert second.heard == [(0, None)]


async def test_what_cannot_begin_for_no_known_reason_is_written_by_a_task() -> None:
    bench = Bench()
    bench.state.begin = None  # type: ignore[assignment, method-assign]
    bench.accept(0)
    await turns()
    assert (bench.state.written, bench.heard) == ([1], [(0, None)])


async def test_what_is_not_on_its_way_can_be_refused() -> None:
    bench = Bench()
    bench.accept(0)
    bench.writes.refuse(AWAY)
    await turns()
    assert (bench.heard, bench.state.begun, bench.rests) == ([(0, AWAY.code)], [], 1)


async def test_whoever_stops_waits_until_all_is_written() -> None:
    bench = Bench()
    await bench.writes.idle(10)
    bench.accept(0)
    await turns()
    waiting = asyncio.create_task(bench.writes.idle(10))
    await turns()
    assert not waiting.done()
    bench.state.begun[0][1].set_result([None])
    await waiting
    assert bench.writes.stored == 1
