"""An event loop without sockets and threads, with a clock that jumps to the next timer.

asyncio guarantees that callbacks of one loop run in the order in which they became ready, and code relies on
that. Each simulated process therefore keeps its order, and chance selects the process that runs next.
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
from unittest.mock import patch

from tests.testkit.simulator.node import CURRENT, Node, node_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MAX_CALLBACKS: Final = 200_000
"""The largest number of callbacks without progress of the clock; more indicate a busy loop."""

_MAX_AWAITS: Final = 10
"""The number of times that a task being closed may await before it is abandoned."""


class Stuck(Exception):
    """The simulation can make no more progress."""


class SimulatedLoop(base_events.BaseEventLoop):
    """Virtual seconds from 0; `random` selects the node that runs next."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._chance = random.random
        self._pace = 1.0
        self.now = 0.0
        self._timers: list[tuple[float, int, _Handle | None, Callable[..., object], Sequence[Any]]] = []
        self._numbers = count()
        self._busy: list[Node] = []
        self.outside = Node("outside")
        self.tasks: list[asyncio.Task[Any]] = []
        self._stopping = False
        self._stuck_at = _MAX_CALLBACKS
        self.steps = 0

    get_debug = staticmethod(bool)
    """Always False: futures and tasks read it when they are created."""

    def time(self) -> float:
        """Returns the seconds of the running node's clock; `now` are virtual seconds, which no node sees."""
        return self.now * self._pace

    def resume(self, node: Node) -> None:
        """Starts or continues a node."""
        node.paused = node.killed = False
        if node.ready and node not in self._busy:
            self._busy.append(node)

    def remaining(self, node: Node) -> tuple[int, int]:
        """Returns the number of tasks and timers of a node."""
        tasks = sum(
            isinstance(task, _NumberedTask) and task.node is node for task in self.tasks if not task.done()
        )
        timers = (timer for _, _, timer, *_ in self._timers if timer is not None and not timer._cancelled)
        return tasks, sum(node_of(timer._context) is node for timer in timers)

    def spawn(self, node: Node, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task of a node."""
        return self.create_task(work, context=node.context())

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Creates a task; sets of tasks have the same order in each run."""
        # A name prevents asyncio from generating one.
        task = _NumberedTask(coro, loop=self, name="" if name is None else str(name), context=context)
        task.node = CURRENT.get() if context is None else node_of(context)
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules a callback after those of its node that are ready."""
        if context is None:
            context = copy_context()
        handle = _new(_Handle)
        handle._callback, handle._args, handle._context, handle._cancelled = callback, args, context, False
        node = context.get(CURRENT) or self.outside
        ready = node.ready
        if not ready and not node.paused and not node.killed:
            self._busy.append(node)
        ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules a callback; there is only one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedules a timer; timers of the same time run in the order of creation."""
        timer = _new(_Handle)
        timer._callback, timer._args, timer._when, timer._cancelled = callback, args, when, False
        timer._context = copy_context() if context is None else context
        # Round up: a timer that fires early by its node's clock would be scheduled again endlessly.
        due = when / self._pace + (1e-9 if self._pace != 1.0 else 0.0)
        heapq.heappush(self._timers, (due, next(self._numbers), timer, _nothing, ()))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedules a timer."""
        return self.call_at(self.now * self._pace + delay, callback, *args, context=context)

    def call_outside(self, when: float, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Schedules a callback of the network or the store, which have no node's clock and never fail."""
        heapq.heappush(self._timers, (when, next(self._numbers), None, callback, args))

    def create_future(self) -> asyncio.Future[Any]:
        """Creates a future; sets of futures have the same order in each run."""
        return _NumberedFuture(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        """Raises Stuck: there are no threads."""
        raise Stuck("a simulated process must not use threads")

    def end_all(self) -> None:
        """Closes every task, including those of killed nodes."""
        for task in [task for task in self.tasks if not task.done()]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own flag
            for _ in range(_MAX_AWAITS):
                try:
                    task.get_coro().close()
                except RuntimeError:
                    continue  # it awaits something while it closes
                except Exception:
                    break  # irrelevant: the run is over
                break

    def _run_once(self) -> None:
        """Runs all callbacks until the loop is stopped."""
        busy, chance = self._busy, self._chance
        while not self._stopping:
            if not busy:
                self._advance()
                continue
            index = int(chance() * len(busy)) if len(busy) > 1 else 0
            node = busy[index]
            ready = node.ready
            if node.paused or node.killed or not ready:
                del busy[index]
                continue
            handle = ready.popleft()
            if not ready:
                del busy[index]
            if handle._cancelled:
                continue
            self.steps += 1
            self._pace = node.pace
            try:
                handle._context.run(handle._callback, *handle._args)
            except Exception as failure:
                self.call_exception_handler({"message": f"{handle._callback} failed", "exception": failure})
            if self.steps > self._stuck_at:
                self._stuck_at += _MAX_CALLBACKS
                raise Stuck(f"at {self.now:.6f} s tasks run without progress of the clock")

    def _advance(self) -> None:
        """Advances to the next timer, and makes all timers of that time ready."""
        timers, pop, busy, outside = self._timers, heapq.heappop, self._busy, self.outside
        while timers and (first := timers[0][2]) is not None and first._cancelled:
            pop(timers)
        if not timers:
            raise Stuck(f"at {self.now:.6f} s all tasks wait and no timer is scheduled")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
        now = self.now
        self._stuck_at = self.steps + _MAX_CALLBACKS
        self._pace = 1.0
        while timers and timers[0][0] <= now:
            _, _, timer, callback, args = pop(timers)
            if timer is None:
                self.steps += 1
                callback(*args)
                continue
            if timer._cancelled:
                continue
            node = timer._context.get(CURRENT) or outside
            ready = node.ready
            if not ready and not node.paused and not node.killed:
                busy.append(node)
            ready.append(timer)

    def _process_events(self, event_list: list[object]) -> None:
        """Ignored: there are no I/O events."""

    def _write_to_self(self) -> None:
        """Ignored: there is nothing to wake up."""


def _nothing() -> None:
    """Placeholder callback of a node's timer."""


class _Handle(asyncio.TimerHandle):
    """A callback or timer with minimal overhead, since there are so many.

    The creator sets its attributes, which saves a call.
    """

    __slots__ = ()
    _callback: Any
    _args: Any
    _context: Context
    _cancelled: bool
    _when: float

    def cancel(self) -> None:
        """Cancels the callback; cancelled timers are skipped when they are due."""
        self._cancelled, self._callback, self._args = True, None, None


_new: Final = _Handle.__new__


class _NumberedFuture(asyncio.Future[Any]):
    """Hashes by number: sets order by address, which differs from run to run."""

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:  # few are ever in a set
            number = self._number = next(_loop_of(self)._numbers)
            return number


class _NumberedTask(asyncio.Task[T]):
    """The same for tasks."""

    _number: int
    node: Node | None

    __hash__ = _NumberedFuture.__hash__


def _loop_of(future: asyncio.Future[Any]) -> SimulatedLoop:
    loop = future.get_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop


def run(loop: SimulatedLoop, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`, and closes every remaining task. Raises its errors, and Stuck.

    Garbage collection of cycles is off, since its time would differ from run to run. The loop lists its tasks
    itself: asyncio's weak references to all tasks cost more than the tasks.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        all_tasks = asyncio.tasks._all_tasks  # type: ignore[attr-defined]  # it has no other name
        with patch.object(all_tasks, "add", loop.tasks.append):
            return loop.run_until_complete(work)
    finally:
        _end(loop)
        if collected:
            gc.enable()


def _end(loop: SimulatedLoop) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that were never started
        loop.end_all()
    loop.close()
