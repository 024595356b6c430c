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
    """uvloop's where it is installed."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


class LoopThread:
    """Runs coroutines for threads that wait for them."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="sharebroker", daemon=True)
        self._thread.start()

    @classmethod
    def hosting(cls, factory: Callable[[], T]) -> tuple[Self, T]:
        """A thread, and what `factory` makes within its loop; no thread when that raises."""
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
        """Wait for what `work` gives or raises. An interrupted wait (Ctrl-C) cancels it."""
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise IllegalStateError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise IllegalStateError("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def make(self, factory: Callable[[], T]) -> T:
        """Call `factory` within the loop."""

        async def within() -> T:
            return factory()

        return self.call(within())

    def stop(self) -> None:
        """End the loop, with all that runs in it, soon. Again, it does nothing."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """`stop`, and wait for the thread."""
        self.stop()
        self._thread.join()
