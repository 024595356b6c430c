"""Rules between one poll and the next (Kafka: share.acknowledgement.mode)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.errors import IllegalStateError, KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans

_ACCEPT: Final = AcknowledgeType.ACCEPT
_RENEW: Final = AcknowledgeType.RENEW
_SWEEP: Final = 1000


class RecordResult(NamedTuple):
    """The outcome of one record's acknowledgement, as `commit` returns it."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""
    offset: int
    """The record's offset."""
    kind: AcknowledgeType
    """The acknowledge type that was sent."""
    error: KafkaError | None
    """None if the acknowledgement is applied and durable."""


class PollBatch:
    """The records that the application holds: those of the last poll, or those of an iteration."""

    def __init__(self, explicit: bool) -> None:
        self._explicit = explicit
        self._records: list[Record] = []
        self._unacknowledged: list[Record] = []
        self._sweep_at = _SWEEP

    def replace(self, records: list[Record]) -> None:
        """Sets the records of a new poll; the earlier ones are finished."""
        self._records = records

    def add(self, record: Record) -> None:
        """Adds one record of an iteration; earlier ones may still be unacknowledged."""
        self._records.append(record)
        if len(self._records) >= self._sweep_at:
            self._records = self.pop_unacknowledged()
            self._sweep_at = 2 * len(self._records) + _SWEEP

    def pop_unacknowledged(self) -> list[Record]:
        """Removes all records; returns those held without a final acknowledgement."""
        records, self._records = self._records, []
        return [record for record in records if _is_unacknowledged(record)]

    def check_acknowledged(self) -> None:
        """Raises IllegalStateError in explicit mode if a record is neither acknowledged nor lost."""
        if not self._explicit:
            return
        self._unacknowledged = [
            record
            for record in self._records
            if (ack := record.acknowledgement) is None or ack.kind is _RENEW
        ]
        missing = [r for r in self._unacknowledged if r.acknowledgement is None and not r.lock_lost]
        if missing:
            raise IllegalStateError(
                f"{len(missing)} records are not acknowledged, the first is {missing[0]!r}"
            )

    def accept_remaining(self) -> None:
        """Accepts, in implicit mode, all records whose lock is not lost."""
        if self._explicit:
            return
        records, self._records = self._records, []
        if len(records) == 1 and not records[0].lock_lost:  # an iteration: coalesced with its neighbours
            records[0].acquisition.sink.queue(records[0], _ACCEPT)
            return
        if any(acquisition.lost for acquisition, _, _ in spans(records)):
            records = [record for record in records if not record.lock_lost]
        for acquisition, first, last in spans(records):
            acquisition.sink.queue_range(acquisition, first, last, _ACCEPT)

    @property
    def renewal_pending(self) -> bool:
        """Whether a renewal that `check_acknowledged` found has no outcome yet."""
        return any(
            ack is not None and ack.kind is _RENEW and not ack.done
            for ack in (record.acknowledgement for record in self._unacknowledged)
        )

    def pop_renewed(self) -> list[Record]:
        """Returns the records with a confirmed renewal; the application must acknowledge them again."""
        renewed = [
            record
            for record in self._unacknowledged
            if (ack := record.acknowledgement) is not None and ack.is_confirmed_renewal
        ]
        if renewed:
            self.replace(renewed)
            for record in renewed:
                record.acknowledgement = None
        return renewed


def _is_unacknowledged(record: Record) -> bool:
    ack = record.acknowledgement
    if ack is not None and ack.kind is not _RENEW and ack.error is None:
        return False
    return not record.lock_lost
