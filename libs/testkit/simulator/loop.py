"""An event loop without a machine under it: no sockets, no threads, a clock that jumps to the next timer.

asyncio promises that callbacks of one loop run in the order in which they became ready; code relies on that.
So each simulated process keeps its order, and chance decides which process is next.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import warnings
from asyncio import base_events
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from itertools import count
from random import Random
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from libs.testkit.simulator.node import CURRENT, Node, current, node_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MOST_AT_ONCE: Final = 200_000
"""Callbacks without the clock going on: more are a loop that waits for nothing."""


class Stuck(Exception):
    """Nothing can happen any more, or nothing but the same for ever."""


class SimulatedLoop(base_events.BaseEventLoop):
    """Virtual seconds from 0; `random` decides whose turn it is. `outside` is the context of no node."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 0.0
        self._timers: list[tuple[float, int, _Handle]] = []
        self._numbers = count()
        self._busy: list[Node] = []
        self._outside = Node("outside")
        self._at_once = 0
        self._stopping = False
        self.steps = 0
        self.outside = Context()

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def resume(self, node: Node) -> None:
        """Let a node run again, or for the first time, what it is ready for."""
        node.paused = node.killed = False
        if node.ready and node not in self._busy:
            self._busy.append(node)

    def left(self, node: Node) -> tuple[int, int]:
        """Tasks and timers that a node has."""
        tasks = sum(isinstance(task, _NumberedTask) and task.node is node for task in asyncio.all_tasks(self))
        timers = (timer for _, _, timer in self._timers if not timer.cancelled())
        return tasks, sum(node_of(timer._context) is node for timer in timers)

    def spawn(self, node: Node, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of a node."""
        return self.create_task(work, context=node.context())

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """As asyncio says; sets of tasks have the same order in each run."""
        task: _NumberedTask[T] = _NumberedTask.__new__(_NumberedTask)
        task._number = next(self._numbers)
        task.node = current() if context is None else node_of(context)
        asyncio.Task.__init__(task, coro, loop=self, name="" if name is None else str(name), context=context)
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio says; behind what its node is ready for already."""
        handle = _Handle(callback, args, copy_context() if context is None else context)
        self._enqueue(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio says; timers of one moment come in the order in which they were set."""
        timer = _Handle(callback, args, copy_context() if context is None else context)
        timer._when = when
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio says."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio says; sets of futures have the same order in each run."""
        return _NumberedFuture(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        """There are no threads."""
        raise Stuck("a simulated process must not use threads")

    def _enqueue(self, handle: _Handle) -> None:
        node = handle._context.get(CURRENT) or self._outside
        if not node.ready and not node.paused and not node.killed:
            self._busy.append(node)
        node.ready.append(handle)

    def _run_once(self) -> None:
        """What `run_forever` repeats: here all callbacks until the loop is stopped."""
        busy, random = self._busy, self._random.random
        while not self._stopping:
            if not busy:
                self._go_on()
                continue
            index = int(random() * len(busy)) if len(busy) > 1 else 0
            node = busy[index]
            if node.paused or node.killed or not node.ready:
                del busy[index]
                continue
            handle = node.ready.popleft()
            if not node.ready:
                del busy[index]
            if not handle._cancelled:
                self._step(handle)

    def _step(self, handle: _Handle) -> None:
        self.steps += 1
        self._at_once += 1
        try:
            handle._context.run(handle._callback, *handle._args)
        except Exception as failure:
            self.call_exception_handler({"message": f"{handle._callback} failed", "exception": failure})
        if self._at_once > _MOST_AT_ONCE:
            self._at_once = 0
            raise Stuck(f"at {self._now:.6f} s something waits without the clock going on")

    def _go_on(self) -> None:
        """To the next timer, and to all of its moment."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Stuck(f"at {self._now:.6f} s everything waits, and nothing is to come")
        self._now = now = max(self._now, timers[0][0])
        self._at_once = 0
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self._enqueue(timer)

    def _process_events(self, event_list: list[object]) -> None:
        """No events come from a machine."""

    def _write_to_self(self) -> None:
        """Nothing has to be woken."""


class _Handle(asyncio.TimerHandle):
    """A callback, at once or at its time: as little of asyncio's handles as may be, there are so many."""

    __slots__ = ()
    _callback: Any
    _args: Any
    _context: Context
    _cancelled: bool
    _when: float

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], context: Context) -> None:
        self._callback, self._args, self._context, self._cancelled = callback, args, context, False

    def cancel(self) -> None:
        """As asyncio says; cancelled timers are passed over when their time comes."""
        self._cancelled, self._callback, self._args = True, None, None


class _NumberedFuture(asyncio.Future[Any]):
    """Hashes by its number: addresses, by which sets order, differ from run to run."""

    def __init__(self, *, loop: SimulatedLoop) -> None:
        self._number = next(loop._numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _NumberedTask(asyncio.Task[T]):
    """The same for tasks."""

    _number: int
    node: Node | None

    def __hash__(self) -> int:
        return self._number


def run(loop: SimulatedLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, and an end to every task it left. Raises what it raises, Stuck.

    Objects that are freed in cycles would be freed at another moment in each run: that waits.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(work)
    finally:
        _end(loop)
        if collected:
            gc.enable()


def _end(loop: SimulatedLoop) -> None:
    """Cancels what still runs, on nodes that were paused or killed too: nothing is left half done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that had not begun
        _cancel_all(loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _cancel_all(loop: SimulatedLoop) -> None:
    for _ in range(10):
        tasks = sorted((t for t in asyncio.all_tasks(loop) if isinstance(t, _NumberedTask)), key=hash)
        if not tasks:
            break
        for task in tasks:
            if task.node is not None:
                loop.resume(task.node)
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=60.0))
