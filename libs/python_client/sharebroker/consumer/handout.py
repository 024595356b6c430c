"""The rules between handing out records and handing out the next (Kafka: share.acknowledgement.mode)."""

from __future__ import annotations

from typing import NamedTuple

from sharebroker.client_errors import IllegalStateError
from sharebroker.errors import KafkaError
from sharebroker.records.record import AcknowledgeType, Record


class RecordResult(NamedTuple):
    """What became of one record's acknowledgement; `error` None means applied and durable."""

    topic: str
    partition: int
    offset: int
    kind: AcknowledgeType
    error: KafkaError | None


class Handout:
    """What the application was given last."""

    def __init__(self, explicit: bool) -> None:
        self._explicit = explicit
        self._given: list[Record] = []

    def give(self, records: list[Record]) -> None:
        """These are the application's now; the earlier ones are done with."""
        self._given = records

    def check_answered(self) -> None:
        """Raises IllegalStateError in explicit mode when a record is neither acknowledged nor lost."""
        if not self._explicit:
            return
        missing = [r for r in self._given if r.acknowledgement is None and not r.lock_lost]
        if missing:
            raise IllegalStateError(
                f"{len(missing)} records are not acknowledged, the first is {missing[0]!r}"
            )

    def accept_rest(self) -> None:
        """In implicit mode: accept what was given and not answered otherwise."""
        if self._explicit:
            return
        for record in self._given:
            if record.acknowledgement is None and not record.lock_lost:
                record.acquisition.sink.decide(record, AcknowledgeType.ACCEPT)
        self._given = []

    @property
    def renewing(self) -> bool:
        """Whether the outcome of a renewal is not known yet."""
        return any(
            r.acknowledgement is not None
            and r.acknowledgement.kind is AcknowledgeType.RENEW
            and not r.acknowledgement.done
            for r in self._given
        )

    def take_renewed(self) -> list[Record]:
        """Records whose lock was renewed: they are given again, for a final word."""
        again = [r for r in self._given if r.acknowledgement is not None and r.acknowledgement.holds_on]
        if again:
            self.give(again)
            for record in again:
                record.acknowledgement = None
        return again
