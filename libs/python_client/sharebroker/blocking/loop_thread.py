"""An event loop on a thread of its own, and blocking clients built on it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import wraps
from importlib.util import find_spec
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from sharebroker.client_errors import warn_unclosed
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import IllegalStateError

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")


def _new_loop() -> asyncio.AbstractEventLoop:
    """Returns a uvloop event loop if uvloop is installed, else one of asyncio."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


class LoopPool:
    """Event loops that are stopped and may run again.

    A loop is not closed after use: gRPC passes the results of cancelled calls on to their loop later. If
    that loop is closed, this fails in whichever loop of the process reads gRPC's queue, and results of other
    calls are delayed.
    """

    def __init__(self) -> None:
        self._stopped: list[asyncio.AbstractEventLoop] = []
        os.register_at_fork(after_in_child=self._stopped.clear)  # a child must not share file descriptors
        atexit.register(self._close)

    def take(self) -> asyncio.AbstractEventLoop:
        """Returns a loop that no other thread runs."""
        try:
            return self._stopped.pop()
        except IndexError:
            return _new_loop()

    def put(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keeps a loop that has stopped and has no tasks."""
        self._stopped.append(loop)

    def _close(self) -> None:
        for loop in self._stopped:
            loop.close()


_POOL: Final = LoopPool()


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self) -> None:
        self._loop = _POOL.take()
        self._stopped = False
        # No call may reach the loop after `stop`: the loop then serves another thread.
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sharebroker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(end(asyncio.all_tasks(self._loop)))
        _POOL.put(self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the result of `work`; an interrupted wait (Ctrl-C) cancels it.

        Raises IllegalStateError if the thread is stopped.
        """
        with self._lock:
            if self._stopped or not self._thread.is_alive():
                work.close()
                raise IllegalStateError("the client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise IllegalStateError("the client was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def make(self, factory: Callable[[], T]) -> T:
        """Calls `factory` in the loop and returns its result."""

        async def within() -> T:
            return factory()

        return self.call(within())

    def stop(self) -> None:
        """Stops the loop and cancels its tasks, without waiting. A second call has no effect."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """Stops the loop and waits for the thread to end."""
        self.stop()
        self._thread.join()


class BlockingClient(Generic[C]):
    """The blocking form of an asyncio client `C`, which lives on a thread of its own."""

    def __init__(self, factory: Callable[[], C]) -> None:
        """Starts a thread and calls `factory` in its loop; stops the thread if `factory` raises."""
        self._thread = LoopThread()
        self._closed = False
        try:
            self._client = self._thread.make(factory)
        except BaseException:
            self._thread.close()
            raise

    def __del__(self) -> None:
        if hasattr(self, "_client") and not self._closed:
            if self._in_use():
                warn_unclosed(self)
            self._thread.stop()

    def _in_use(self) -> bool:
        """Whether a client that is dropped without `close` loses something."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client."""
        raise NotImplementedError


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient[C], P], T]:
    """Returns the blocking form of an asyncio client's method; the caller waits for its result."""

    @wraps(method)
    def call(self: BlockingClient[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(method(self._client, *args, **kwargs))

    return call
