"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from importlib.util import find_spec
from typing import Any, TypeVar

from sharebroker.client_errors import IllegalStateError

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

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
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

    def close(self) -> None:
        """Stop the loop and wait for the thread. Closing again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
