"""Helpers for asyncio: tasks with an owner, order per key, turns of long work, blocking work, pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import Thread
from time import perf_counter
from types import coroutine
from typing import Any, Final, TypeVar

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import KafkaError

_log = structlog.get_logger()

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item

CALLS_AT_ONCE: Final = 100
"""Calls that a request makes at the same time; it may have 50,000 names."""


class Tasks:
    """Starts tasks and cancels them together; `failed` receives the exception of a task."""

    __slots__ = ("_failed", "_running")

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts `work` as a task."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        """Cancels all tasks and waits for them."""
        await end(self._running)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


class SerialExecutor:
    """Executes the work of each key in the order of `submit`.

    `key in executor` is true while work is pending.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[Any]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._last

    def submit(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` after the earlier work of its key, whether that succeeds or fails."""
        task = asyncio.create_task(_run_after(self._last.get(key), work))
        self._last[key] = task
        task.add_done_callback(lambda done: self._remove(key, done))
        return task

    async def drain(self) -> None:
        """Waits until no key has pending work."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def _remove(self, key: str, done: asyncio.Task[Any]) -> None:
        if self._last.get(key) is done:
            del self._last[key]


class Turns:
    """Divides the event loop among long computations: one portion of one of them in each turn of the loop.

    A computation awaits `next` before each portion, which should take a few milliseconds at most.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # fair: waiters get it in the order of their arrival

    async def next(self) -> None:
        """Returns in a later turn of the event loop, after the computations that wait already."""
        async with self._lock:
            await asyncio.sleep(0)

    async def run(self, computation: Generator[None, None, T]) -> T:
        """Returns the result of a computation; others have their turns wherever it yields."""
        while True:
            try:
                next(computation)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # the generator's result
            await self.next()

    async def portions(self, items: Iterable[T], size: int) -> AsyncIterator[list[T]]:
        """Yields the items in lists of `size`; other computations have their turns between two lists."""
        remaining = iter(items)
        while portion := [*islice(remaining, size)]:
            yield portion
            if len(portion) == size:
                await self.next()

    async def collect(self, items: Iterable[T], size: int) -> list[T]:
        """Returns the items, of which `portions` takes `size` at once. Few items cost no turn."""
        remaining = iter(items)
        found = portion = [*islice(remaining, size)]
        while len(portion) == size:
            await self.next()
            portion = [*islice(remaining, size)]
            found += portion
        return found

    async def gather(
        self, call: Callable[[I], Awaitable[T]], items: Iterable[I], size: int = CALLS_AT_ONCE
    ) -> list[T]:
        """Returns what `gather_in_portions` does; others have their turns between two portions."""
        results: list[T] = []
        async for portion in self.portions(items, size):
            results += await _together(map(call, portion))
        return results


async def gather_in_portions(
    call: Callable[[I], Awaitable[T]], items: Iterable[I], size: int = CALLS_AT_ONCE
) -> list[T]:
    """Returns the result of `call` for each item, in order; `size` calls run at the same time.

    Raises the first failure of a call, after the other calls were cancelled and have ended.
    """
    results: list[T] = []
    remaining = iter(items)
    while portion := [*islice(remaining, size)]:
        results += await _together(map(call, portion))
    return results


async def _together(calls: Iterable[Awaitable[T]]) -> list[T]:
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        await end(tasks)
        raise


async def _run_after(earlier: asyncio.Task[Any] | None, work: Coroutine[Any, Any, T]) -> T:
    if earlier is not None:
        await asyncio.wait([earlier])
    return await work


def run_in_daemon_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Returns a future of the result of `work`.

    asyncio's own threads would delay the shutdown of the process.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            outcome: T | Exception = work()
        except Exception as error:  # raised by the future
            outcome = error
        with suppress(RuntimeError):  # the loop closed meanwhile
            loop.call_soon_threadsafe(_resolve, result, outcome)

    Thread(target=run, name=name, daemon=True).start()
    return result


def _resolve(result: asyncio.Future[T], outcome: T | Exception) -> None:
    if result.done():  # cancelled
        return
    if isinstance(outcome, Exception):
        result.set_exception(outcome)
    else:
        result.set_result(outcome)


@coroutine
def timed(work: Coroutine[Any, Any, T], spent: list[float]) -> Generator[Any, Any, T]:
    """Returns the result of `work`; adds the seconds of each of its steps to `spent`, without its waits."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        begun = perf_counter()
        try:
            waits_for = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            spent.append(perf_counter() - begun)
        try:
            yield waits_for
        except BaseException as error:  # a cancellation, or GeneratorExit
            step = partial(work.throw, error)
        else:
            step = partial(work.send, None)


def doubling(first: float, longest: float) -> Iterator[float]:
    """Returns pauses in seconds: `first`, then doubled for each attempt, up to `longest`."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)


async def logged(work: Coroutine[Any, Any, None], event: str) -> None:
    """Runs `work`; logs `event` if it raises a KafkaError."""
    try:
        await work
    except KafkaError as error:
        _log.info(event, error=str(error))
