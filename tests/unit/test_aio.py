"""Helpers for asyncio: tasks, work in order per key, blocking work, pauses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from itertools import islice
from typing import Any

import pytest
from typing_extensions import override

from sharebroker_server.aio import (
    SerialExecutor,
    Tasks,
    Turns,
    doubling,
    gather_in_portions,
    run_in_daemon_thread,
)
from tests.testkit.waiting import eventually


async def test_exceptions_reach_the_owner_and_stop_cancels() -> None:
    errors: list[BaseException] = []
    tasks = Tasks(errors.append)

    async def fail() -> None:
        raise ValueError("failed")

    async def wait() -> None:
        await asyncio.Event().wait()

    waiting = tasks.spawn(wait())
    tasks.spawn(fail())
    await eventually(lambda: errors)
    assert [str(error) for error in errors] == ["failed"]
    await tasks.stop()
    assert waiting.cancelled()
    assert len(errors) == 1


async def test_work_of_one_key_runs_in_order_and_keys_run_concurrently() -> None:
    executor, gate, events = SerialExecutor(), asyncio.Event(), list[str]()

    async def work(name: str, wait: bool = False) -> str:
        if wait:
            await gate.wait()
        events.append(name)
        return name

    first = executor.submit("a", work("a1", wait=True))
    second = executor.submit("a", work("a2"))
    assert await executor.submit("b", work("b1")) == "b1"
    assert "a" in executor
    assert not second.done()
    gate.set()
    await executor.drain()
    assert (await first, await second, events) == ("a1", "a2", ["b1", "a1", "a2"])
    assert "a" not in executor


async def test_failed_work_does_not_stop_later_work() -> None:
    executor = SerialExecutor()

    async def fail() -> None:
        raise ValueError("failed")

    async def succeed() -> int:
        return 1

    failed = executor.submit("a", fail())
    assert await executor.submit("a", succeed()) == 1
    with pytest.raises(ValueError, match="failed"):
        await failed


async def test_work_in_a_thread_returns_its_result() -> None:
    name, daemon = await run_in_daemon_thread(_here, "elsewhere")
    assert (name, daemon) == ("elsewhere", True)


async def test_the_future_raises_the_exception_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0, "elsewhere")


async def test_a_cancelled_future_is_not_resolved() -> None:
    going_on, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        going_on.wait(60)
        loop.call_soon_threadsafe(ended.set)

    outcome = run_in_daemon_thread(work, "elsewhere")
    outcome.cancel()
    going_on.set()
    await ended.wait()
    assert outcome.cancelled()


def _here() -> tuple[str, bool]:
    return threading.current_thread().name, threading.current_thread().daemon


def test_pauses_double_up_to_the_longest() -> None:
    assert list(islice(doubling(0.05, 0.3), 5)) == [0.05, 0.1, 0.2, 0.3, 0.3]
    assert list(islice(doubling(1.0, 1.0), 3)) == [1.0, 1.0, 1.0]


async def test_long_computations_take_turns() -> None:
    turns, events = Turns(), list[str]()

    async def compute(name: str) -> None:
        for _ in range(3):
            await turns.next()
            events.append(name)

    await asyncio.gather(*map(compute, "abc"))
    assert events == [*"abc"] * 3


async def test_a_computation_runs_until_its_result() -> None:
    turns, events = Turns(), list[str]()

    def compute(name: str) -> Generator[None, None, str]:
        for _ in range(2):
            events.append(name)
            yield
        return name

    def fail() -> Generator[None, None, float]:
        yield
        return 1 / 0

    assert await asyncio.gather(*(turns.run(compute(name)) for name in "abc")) == [*"abc"]
    assert events == [*"abc"] * 2
    with pytest.raises(ZeroDivisionError):
        await turns.run(fail())


async def test_items_are_divided_into_portions() -> None:
    turns, events = Turns(), list[object]()

    async def compute(number: int) -> None:
        events.extend([portion async for portion in turns.portions(range(number), 2)])

    async def tick() -> None:
        while len(events) < 4:
            events.append("other")
            await asyncio.sleep(0)

    await compute(0)
    await compute(1)
    assert events == [[0]]
    portions = turns.portions(range(5), 2)
    assert await anext(portions) == [0, 1]
    task = asyncio.create_task(tick())
    assert [portion async for portion in portions] == [[2, 3], [4]]
    await task
    assert events.count("other") >= 2


class _CountedTurns(Turns):
    taken = 0

    @override
    async def next(self) -> None:
        self.taken += 1


@pytest.mark.parametrize(("number", "taken"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
async def test_few_items_are_collected_without_a_turn(number: int, taken: int) -> None:
    turns = _CountedTurns()
    assert await turns.collect(iter(range(number)), 2) == [*range(number)]
    assert turns.taken == taken


async def test_other_tasks_run_between_the_portions_of_computations() -> None:
    turns, portions, other = Turns(), list[int](), list[int]()

    async def compute() -> None:
        for _ in range(10):
            await turns.next()
            portions.append(len(other))

    async def tick() -> None:
        while len(portions) < 30:
            other.append(1)
            await asyncio.sleep(0)

    await asyncio.gather(compute(), compute(), compute(), tick())
    assert len(set(portions)) == len(portions), "two portions ran in the same turn of the event loop"


async def test_few_calls_run_at_the_same_time_and_results_are_in_order() -> None:
    running, most = set[int](), 0

    async def call(item: int) -> int:
        nonlocal most
        running.add(item)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(item)
        return item * 2

    assert await Turns().gather(call, iter(range(10)), 4) == [item * 2 for item in range(10)]
    assert most == 4


@pytest.mark.parametrize("gather", [gather_in_portions, Turns().gather])
async def test_the_other_calls_have_ended_when_a_failure_is_raised(gather: Callable[..., Any]) -> None:
    began, ended = list[int](), list[int]()

    async def call(item: int) -> None:
        began.append(item)
        if item == 1:
            raise ValueError(item)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # also what a cancelled call still does
            ended.append(item)

    with pytest.raises(ValueError, match="1"):
        await gather(call, range(9), 3)
    assert (began, sorted(ended)) == ([0, 1, 2], [0, 2])
