"""The outcome of one record's acknowledgement, which tasks and threads can wait for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from sharebroker_protocol.outcome import DONE, QUEUED, Outcome
from sharebroker_protocol.records.record import AcknowledgeType, Record

_RENEW: Final = AcknowledgeType.RENEW


class Acknowledgement(Outcome):
    """One acknowledgement of one record. Await it, or call `result()` in a thread; both raise its KafkaError.

    INVALID_RECORD_STATE: the member no longer held the record. ConnectionLostError: the acknowledgement may
    or may not have been applied.
    """

    # No reference to the record: thousands of reference cycles per second would burden the garbage collector.
    __slots__ = ("acquisition", "detail", "kind", "offset")

    def __init__(self, record: Record, kind: AcknowledgeType, detail: int | str | None) -> None:
        # Replaces super().__init__(), which would cost one more call per record.
        self.progress = QUEUED
        self.error = None
        self._waiters = None
        self.acquisition = record.acquisition
        self.offset = record.offset
        self.kind = kind
        self.detail = detail

    @property
    def is_confirmed_renewal(self) -> bool:
        """Whether this is a confirmed renewal, so that the record still needs a final acknowledgement."""
        return self.kind is _RENEW and self.done and self.error is None

    @property
    def unconfirmed_offsets(self) -> list[int]:
        """The offsets without a known outcome: the record's own, or none."""
        return [] if self.done else [self.offset]

    def __await__(self) -> Generator[object, None, None]:
        if self.progress is not DONE:
            yield from self.wait()
        if self.error is not None:
            raise self.error

    def result(self, timeout: float | None = None) -> None:
        """Blocks until the outcome is known and raises its error; TimeoutError after `timeout` seconds."""
        self.wait_blocking(timeout)
        self.raise_error()

    def __repr__(self) -> str:
        outcome = self.progress.name if self.error is None else self.error.code.name
        return f"Acknowledgement({self.kind.name}: {outcome})"
