"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Self, TypeVar

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import IllegalStateError

T = TypeVar("T")


def _new_loop() -> asyncio.AbstractEventLoop:
    """Returns a uvloop event loop if uvloop is installed, else one of asyncio."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="sharebroker", daemon=True)
        self._thread.start()

    @classmethod
    def hosting(cls, factory: Callable[[], T]) -> tuple[Self, T]:
        """Starts a thread and calls `factory` in its loop; stops the thread if `factory` raises."""
        thread = cls()
        try:
            return thread, thread.make(factory)
        except BaseException:
            thread.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(end(asyncio.all_tasks(self._loop)))
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the result of `work`; an interrupted wait (Ctrl-C) cancels it.

        Raises IllegalStateError if the thread is stopped.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
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
        with suppress(RuntimeError):  # the loop is already closed
            self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """Stops the loop and waits for the thread to end."""
        self.stop()
        self._thread.join()
