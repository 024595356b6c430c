"""The outcome of one record's acknowledgement, for whoever wants to wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from enum import IntEnum

from sharebroker.errors import KafkaError
from sharebroker.records.record import AcknowledgeType


class Progress(IntEnum):
    """How far an acknowledgement has come."""

    QUEUED = 0
    SENT = 1
    DONE = 2


class Acknowledgement:
    """One acknowledgement of one record. Await it, or take `result()` in a thread; both raise its KafkaError.

    INVALID_RECORD_STATE says that the record was not held any more; a ConnectionLostError that it may or
    may not have been applied.
    """

    # No reference back to the record: thousands of cycles a second would keep the garbage collector busy.
    __slots__ = ("_waiters", "detail", "error", "kind", "progress")

    def __init__(self, kind: AcknowledgeType, detail: int | str | None) -> None:
        self.kind = kind
        self.detail = detail
        self.progress = Progress.QUEUED
        self.error: KafkaError | None = None
        self._waiters: list[Callable[[], None]] | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known: `error` is then final, None meaning applied and durable."""
        return self.progress is Progress.DONE

    @property
    def holds_on(self) -> bool:
        """Whether it is a confirmed renewal: the record waits for a final word again."""
        return self.kind is AcknowledgeType.RENEW and self.done and self.error is None

    def settle(self, error: KafkaError | None) -> None:
        """Make the outcome known, and wake whoever waits."""
        self.error = error
        self.progress = Progress.DONE
        # A thread that adds its waiter later looks at `progress` after that, so none is missed.
        if self._waiters is not None:
            for wake in self._waiters:
                wake()

    def __await__(self) -> Generator[object, None, None]:
        if not self.done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._when_done(lambda: None if future.done() else future.set_result(None))
            yield from future
        self._raise_error()

    def result(self, timeout: float | None = None) -> None:
        """Block until the outcome is known, at most `timeout` seconds (TimeoutError)."""
        if not self.done:
            confirmed = threading.Event()
            self._when_done(confirmed.set)
            # It may have been settled before the waiter was there, so look again.
            if self.progress is not Progress.DONE and not confirmed.wait(timeout):
                raise TimeoutError("the acknowledgement is not confirmed yet")
        self._raise_error()

    def _when_done(self, wake: Callable[[], None]) -> None:
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(wake)

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error

    def __repr__(self) -> str:
        outcome = self.progress.name if self.error is None else self.error.code.name
        return f"Acknowledgement({self.kind.name}: {outcome})"
