"""A result that is known later; tasks await it, threads block on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Final

from sharebroker_protocol.errors import KafkaError


class Progress(IntEnum):
    """Progress of a request."""

    QUEUED = 0
    SENT = 1
    DONE = 2


# Attribute look-up on an enumeration costs 0.1 µs, as much as all the code below.
QUEUED: Final = Progress.QUEUED
SENT: Final = Progress.SENT
DONE: Final = Progress.DONE


class Outcome:
    """Set once, by the client's event loop. A future or event is created only for a caller that waits."""

    __slots__ = ("_waiters", "error", "progress")

    def __init__(self) -> None:
        self.progress: Progress = QUEUED
        self.error: KafkaError | None = None
        self._waiters: list[Callable[[], None]] | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known: `error` is then final, None meaning success."""
        return self.progress is DONE

    def complete(self, error: KafkaError | None) -> None:
        """Sets the outcome and wakes the waiters."""
        self.error = error
        self.progress = DONE
        # `progress` is set before the waiters are called: a waiter added concurrently sees that it is done.
        if self._waiters is not None:
            for wake in self._waiters:
                wake()

    def wait(self) -> Generator[object, None, None]:
        """Suspends the running task until the outcome is known."""
        if self.progress is not DONE:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_done(lambda: None if future.done() else future.set_result(None))
            yield from future

    def wait_blocking(self, timeout: float | None) -> None:
        """Blocks the thread until the outcome is known. Raises TimeoutError after `timeout` seconds."""
        if not self.done:
            known = threading.Event()
            self.when_done(known.set)
            if not known.wait(timeout):
                raise TimeoutError("the outcome is not known yet")

    def raise_error(self) -> None:
        """Raises the error of the outcome, if it has one."""
        if self.error is not None:
            raise self.error

    def when_done(self, wake: Callable[[], None]) -> None:
        """Calls `wake` when the outcome is known: in the thread that sets it, or immediately if it is set."""
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(wake)
        if self.done:  # set by another thread before the waiter was added
            wake()
