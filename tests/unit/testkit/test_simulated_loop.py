"""The simulated loop: time jumps, one seed gives one order, an endless wait is detected."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from sharebroker_protocol import clock
from tests.testkit.simulator.loop import SimulatedLoop, Stuck, run
from tests.testkit.simulator.node import Node
from tests.testkit.simulator.outside import EPOCH, simulated

T = TypeVar("T")


def drive(main: Callable[[SimulatedLoop], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    loop = SimulatedLoop(Random(seed))
    return run(loop, main(loop))


def test_time_jumps_to_the_next_timer() -> None:
    async def main(loop: SimulatedLoop) -> float:
        await asyncio.sleep(3600.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60.0):
                await asyncio.Event().wait()
        return loop.time()

    assert drive(main) == 3660.0


def test_callbacks_of_a_process_keep_their_order() -> None:
    async def main(loop: SimulatedLoop) -> list[int]:
        ran: list[int] = []
        for number in range(10):
            loop.call_soon(ran.append, number)
        for number in range(10, 20):
            loop.call_later(1.0, ran.append, number)
        await asyncio.sleep(2.0)
        return ran

    assert drive(main) == list(range(20))


def interleaved(seed: int) -> str:
    async def main(loop: SimulatedLoop) -> str:
        ran: list[str] = []

        async def work(name: str) -> None:
            for _ in range(5):
                ran.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(loop.spawn(Node(name), work(name)) for name in "abc"))
        return "".join(ran)

    return drive(main, seed)


def test_random_source_selects_the_next_process() -> None:
    assert interleaved(1) == interleaved(1)
    assert len({interleaved(seed) for seed in range(20)}) > 10


def test_paused_process_continues_and_killed_one_does_not() -> None:
    async def main(loop: SimulatedLoop) -> list[tuple[float, int]]:
        ran: list[tuple[float, int]] = []
        node = Node("a")

        async def work() -> None:
            for number in range(6):
                ran.append((loop.time(), number))
                await asyncio.sleep(1.0)

        loop.spawn(node, work())
        await asyncio.sleep(1.5)
        node.paused = True
        await asyncio.sleep(3.0)
        loop.resume(node)
        await asyncio.sleep(1.2)
        node.killed = True
        await asyncio.sleep(10.0)
        return list(ran)

    assert drive(main) == [(0.0, 0), (1.0, 1), (4.5, 2), (5.5, 3)]


def test_end_closes_tasks_of_killed_processes() -> None:
    unwound: list[str] = []

    async def main(loop: SimulatedLoop) -> None:
        node = Node("a")

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                unwound.append("a")

        loop.spawn(node, work())
        await asyncio.sleep(1.0)
        node.killed = True

    drive(main)
    assert unwound == ["a"]


@pytest.mark.slow
def test_busy_loop_is_detected() -> None:
    async def forever(loop: SimulatedLoop) -> None:
        await loop.create_future()

    async def busy(loop: SimulatedLoop) -> None:
        while True:  # noqa: ASYNC110 - that is the fault
            await asyncio.sleep(0)

    for main in (forever, busy):
        with pytest.raises(Stuck):
            drive(main)


def test_threads_are_not_supported() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.to_thread(sum, (1, 2))

    with pytest.raises(Stuck, match="threads"):
        drive(main)


def test_sets_of_tasks_have_one_order() -> None:
    async def main(loop: SimulatedLoop) -> list[int]:
        tasks = [asyncio.create_task(asyncio.sleep(1.0), name=str(number)) for number in range(50)]
        order = [int(task.get_name()) for task in set(tasks)]
        await asyncio.wait(tasks)
        return order

    padding: list[Any] = []
    first = drive(main)
    padding.extend(object() for _ in range(1000))
    assert drive(main) == first


def outside(seed: int) -> list[Any]:
    async def main(loop: SimulatedLoop) -> list[Any]:
        with simulated(loop, seed, lambda address: address):
            node = Node("late", skew=-2.0)

            async def times() -> tuple[float, float]:
                return clock.now(), clock.monotonic()

            await asyncio.sleep(5.0)
            there = await loop.spawn(node, times())
            return [clock.now(), there, random.random(), uuid.uuid4(), os.urandom(4)]

    return drive(main)


def test_time_and_randomness_derive_from_the_seed() -> None:
    before = random.getstate()
    drawn = outside(7)
    assert drawn == outside(7)
    assert drawn[0] == EPOCH + 5.0
    assert drawn[1] == (EPOCH + 3.0, EPOCH + 3.0)
    assert drawn[2:] != outside(8)[2:]
    assert random.getstate() == before
    assert clock.now() != EPOCH
