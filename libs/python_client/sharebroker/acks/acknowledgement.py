"""The outcome of one record's acknowledgement, for whoever wants to wait for it."""

from __future__ import annotations

from collections.abc import Generator

from sharebroker.outcome import Outcome, Progress
from sharebroker.records.record import AcknowledgeType


class Acknowledgement(Outcome):
    """One acknowledgement of one record. Await it, or take `result()` in a thread; both raise its KafkaError.

    INVALID_RECORD_STATE says that the record was not held any more; a ConnectionLostError that it may or
    may not have been applied.
    """

    # No reference back to the record: thousands of cycles a second would keep the garbage collector busy.
    __slots__ = ("detail", "kind")

    def __init__(self, kind: AcknowledgeType, detail: int | str | None) -> None:
        # In place of super().__init__(): one call less for each record.
        self.progress = Progress.QUEUED
        self.error = None
        self._waiters = None
        self.kind = kind
        self.detail = detail

    @property
    def holds_on(self) -> bool:
        """Whether it is a confirmed renewal: the record waits for a final word again."""
        return self.kind is AcknowledgeType.RENEW and self.done and self.error is None

    def __await__(self) -> Generator[object, None, None]:
        yield from self.wait()
        self.raise_error()

    def result(self, timeout: float | None = None) -> None:
        """Block until the outcome is known, at most `timeout` seconds (TimeoutError)."""
        self.wait_blocking(timeout)
        self.raise_error()

    def __repr__(self) -> str:
        outcome = self.progress.name if self.error is None else self.error.code.name
        return f"Acknowledgement({self.kind.name}: {outcome})"
