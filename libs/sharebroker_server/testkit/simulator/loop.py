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
from unittest.mock import patch

from sharebroker_server.testkit.simulator.node import CURRENT, Node, node_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MOST_AT_ONCE: Final = 200_000
"""Callbacks without the clock going on: more are a loop that waits for nothing."""

_MOST_WAITS: Final = 10
"""A task that is ended may try to wait so often before it is left as it is."""


class Stuck(Exception):
    """Nothing can happen any more, or nothing but the same for ever."""


class SimulatedLoop(base_events.BaseEventLoop):
    """Virtual seconds from 0; `random` decides whose turn it is."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._chance = random.random
        self._pace = 1.0
        self.now = 0.0
        self._timers: list[tuple[float, int, _Handle | None, Callable[..., object], Sequence[Any]]] = []
        self._numbers = count()
        self._busy: list[Node] = []
        self.nowhere = Node("outside")
        self.tasks: list[asyncio.Task[Any]] = []
        self._stopping = False
        self._stuck_at = _MOST_AT_ONCE
        self.steps = 0

    get_debug = staticmethod(bool)
    """Never: futures and tasks ask it when they are made."""

    def time(self) -> float:
        """Seconds as the node counts them whose code runs; `now` are virtual seconds, as nobody sees them."""
        return self.now * self._pace

    def resume(self, node: Node) -> None:
        """Let a node run again, or for the first time, what it is ready for."""
        node.paused = node.killed = False
        if node.ready and node not in self._busy:
            self._busy.append(node)

    def left(self, node: Node) -> tuple[int, int]:
        """Tasks and timers that a node has."""
        tasks = sum(
            isinstance(task, _NumberedTask) and task.node is node for task in self.tasks if not task.done()
        )
        timers = (timer for _, _, timer, *_ in self._timers if timer is not None and not timer._cancelled)
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
        # A name of its own keeps asyncio from making one.
        task = _NumberedTask(coro, loop=self, name="" if name is None else str(name), context=context)
        task.node = CURRENT.get() if context is None else node_of(context)
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio says; behind what its node is ready for already."""
        if context is None:
            context = copy_context()
        handle = _new(_Handle)
        handle._callback, handle._args, handle._context, handle._cancelled = callback, args, context, False
        node = context.get(CURRENT) or self.nowhere
        ready = node.ready
        if not ready and not node.paused and not node.killed:
            self._busy.append(node)
        ready.append(handle)
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
        timer = _new(_Handle)
        timer._callback, timer._args, timer._when, timer._cancelled = callback, args, when, False
        timer._context = copy_context() if context is None else context
        # Rounded up: a timer that came before its time by its node's clock would be set again, for ever.
        due = when / self._pace + (1e-9 if self._pace != 1.0 else 0.0)
        heapq.heappush(self._timers, (due, next(self._numbers), timer, _nothing, ()))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio says."""
        return self.call_at(self.now * self._pace + delay, callback, *args, context=context)

    def call_outside(self, when: float, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Have something done by networks and stores: no node's clock concerns them, and they never fail."""
        heapq.heappush(self._timers, (when, next(self._numbers), None, callback, args))

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio says; sets of futures have the same order in each run."""
        return _NumberedFuture(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        """There are no threads."""
        raise Stuck("a simulated process must not use threads")

    def end_all(self) -> None:
        """End every task where it stands, those of killed nodes too: nothing is left half done."""
        for task in [task for task in self.tasks if not task.done()]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to say so
            for _ in range(_MOST_WAITS):
                try:
                    task.get_coro().close()
                except RuntimeError:
                    continue  # it waits for something while it ends
                except Exception:
                    break  # of no account: the run is over
                break

    def _run_once(self) -> None:
        """What `run_forever` repeats: here all callbacks until the loop is stopped."""
        busy, chance = self._busy, self._chance
        while not self._stopping:
            if not busy:
                self._go_on()
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
                self._stuck_at += _MOST_AT_ONCE
                raise Stuck(f"at {self.now:.6f} s something waits without the clock going on")

    def _go_on(self) -> None:
        """To the next timer, and to all of its moment."""
        timers, pop, busy, nowhere = self._timers, heapq.heappop, self._busy, self.nowhere
        while timers and (first := timers[0][2]) is not None and first._cancelled:
            pop(timers)
        if not timers:
            raise Stuck(f"at {self.now:.6f} s everything waits, and nothing is to come")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
        now = self.now
        self._stuck_at = self.steps + _MOST_AT_ONCE
        self._pace = 1.0
        while timers and timers[0][0] <= now:
            _, _, timer, callback, args = pop(timers)
            if timer is None:
                self.steps += 1
                callback(*args)
                continue
            if timer._cancelled:
                continue
            node = timer._context.get(CURRENT) or nowhere
            ready = node.ready
            if not ready and not node.paused and not node.killed:
                busy.append(node)
            ready.append(timer)

    def _process_events(self, event_list: list[object]) -> None:
        """No events come from a machine."""

    def _write_to_self(self) -> None:
        """Nothing has to be woken."""


def _nothing() -> None:
    """Stands where a timer of a node has its own callback."""


class _Handle(asyncio.TimerHandle):
    """A callback, at once or at its time: as little of asyncio's handles as may be, there are so many.

    Whoever makes one sets its attributes: a call less.
    """

    __slots__ = ()
    _callback: Any
    _args: Any
    _context: Context
    _cancelled: bool
    _when: float

    def cancel(self) -> None:
        """As asyncio says; cancelled timers are passed over when their time comes."""
        self._cancelled, self._callback, self._args = True, None, None


_new: Final = _Handle.__new__


class _NumberedFuture(asyncio.Future[Any]):
    """Hashes by its number: addresses, by which sets order, differ from run to run."""

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:  # few are ever part of a set
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
    """The result of `work`, and an end to every task it left. Raises what it raises, Stuck.

    Objects that are freed in cycles would be freed at another moment in each run: that waits. The loop lists
    its tasks itself: asyncio's weak references to all tasks cost more than the tasks.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        known = asyncio.tasks._all_tasks  # type: ignore[attr-defined]  # it has no other name
        with patch.object(known, "add", loop.tasks.append):
            return loop.run_until_complete(work)
    finally:
        _end(loop)
        if collected:
            gc.enable()


def _end(loop: SimulatedLoop) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that had not begun
        loop.end_all()
    loop.close()
