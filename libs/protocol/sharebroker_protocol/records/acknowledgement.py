"""The outcome of one record's acknowledgement, for whoever wants to wait for it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from sharebroker_protocol.outcome import DONE, QUEUED, Outcome
from sharebroker_protocol.records.record import AcknowledgeType, Record

_RENEW: Final = AcknowledgeType.RENEW


class Acknowledgement(Outcome):
    """One acknowledgement of one record. Await it, or take `result()` in a thread; both raise its KafkaError.

    INVALID_RECORD_STATE says that the record was not held any more; a ConnectionLostError that it may or
    may not have been applied.
    """

    # No reference back to the record: thousands of cycles a second would keep the garbage collector busy.
    __slots__ = ("acquisition", "detail", "kind", "offset")

    def __init__(self, record: Record, kind: AcknowledgeType, detail: int | str | None) -> None:
        # In place of super().__init__(): one call less for each record.
        self.progress = QUEUED
        self.error = None
        self._waiters = None
        self.acquisition = record.acquisition
        self.offset = record.offset
        self.kind = kind
        self.detail = detail

    @property
    def holds_on(self) -> bool:
        """Whether it is a confirmed renewal: the record waits for a final word again."""
        return self.kind is _RENEW and self.done and self.error is None

    @property
    def unanswered(self) -> list[int]:
        """The offsets whose outcome is not known yet: its own, or none."""
        return [] if self.done else [self.offset]

    def __await__(self) -> Generator[object, None, None]:
        if self.progress is not DONE:
            yield from self.wait()
        if self.error is not None:
            raise self.error

    def result(self, timeout: float | None = None) -> None:
        """Block until the outcome is known, at most `timeout` seconds (TimeoutError)."""
        self.wait_blocking(timeout)
        self.raise_error()

    def __repr__(self) -> str:
        outcome = self.progress.name if self.error is None else self.error.code.name
        return f"Acknowledgement({self.kind.name}: {outcome})"
