"""Something whose outcome is known later, to be awaited by tasks or waited for by threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Final

from sharebroker_protocol.errors import KafkaError


class Progress(IntEnum):
    """How far it has come."""

    QUEUED = 0
    SENT = 1
    DONE = 2


# Looking a member up in its enumeration costs a tenth of a microsecond: as much as all that is done here.
QUEUED: Final = Progress.QUEUED
SENT: Final = Progress.SENT
DONE: Final = Progress.DONE


class Outcome:
    """Settled once, by the client's event loop. Nothing is made for those who do not wait."""

    __slots__ = ("_waiters", "error", "progress")

    def __init__(self) -> None:
        self.progress: Progress = QUEUED
        self.error: KafkaError | None = None
        self._waiters: list[Callable[[], None]] | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known: `error` is then final, None meaning success."""
        return self.progress is DONE

    def settle(self, error: KafkaError | None) -> None:
        """Make the outcome known, and wake whoever waits."""
        self.error = error
        self.progress = DONE
        # First `progress`, then the waiters: one that is added later sees that it is done.
        if self._waiters is not None:
            for wake in self._waiters:
                wake()

    def wait(self) -> Generator[object, None, None]:
        """Suspend the running task until the outcome is known."""
        if self.progress is not DONE:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_done(lambda: None if future.done() else future.set_result(None))
            yield from future

    def wait_blocking(self, timeout: float | None) -> None:
        """Block the running thread until the outcome is known, at most `timeout` seconds (TimeoutError)."""
        if not self.done:
            known = threading.Event()
            self.when_done(known.set)
            if not known.wait(timeout):
                raise TimeoutError("the outcome is not known yet")

    def raise_error(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error

    def when_done(self, wake: Callable[[], None]) -> None:
        """Have `wake` called once the outcome is known, by whoever makes it known; at once if it is."""
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(wake)
        if self.done:  # settled by another thread before the waiter was there
            wake()
