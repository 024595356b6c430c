"""The rules between handing out records and handing out the next (Kafka: share.acknowledgement.mode)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.errors import IllegalStateError, KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans

_ACCEPT: Final = AcknowledgeType.ACCEPT
_RENEW: Final = AcknowledgeType.RENEW
_SWEEP: Final = 1000


class RecordResult(NamedTuple):
    """What became of one record's acknowledgement; `error` None means applied and durable."""

    topic: str
    partition: int
    offset: int
    kind: AcknowledgeType
    error: KafkaError | None


class PollBatch:
    """What the application was given: the records of the last poll, or one by one."""

    def __init__(self, explicit: bool) -> None:
        self._explicit = explicit
        self._given: list[Record] = []
        self._unfinished: list[Record] = []
        self._sweep_at = _SWEEP

    def give(self, records: list[Record]) -> None:
        """These are the application's now; the earlier ones are done with."""
        self._given = records

    def add(self, record: Record) -> None:
        """One more is the application's; earlier ones may still be open."""
        self._given.append(record)
        if len(self._given) >= self._sweep_at:
            self._given = self.remove_open()
            self._sweep_at = 2 * len(self._given) + _SWEEP

    def remove_open(self) -> list[Record]:
        """The records without a final word, as far as is known; they are forgotten."""
        given, self._given = self._given, []
        return [record for record in given if _is_open(record)]

    def check_answered(self) -> None:
        """Raises IllegalStateError in explicit mode when a record is neither acknowledged nor lost."""
        if not self._explicit:
            return
        self._unfinished = [
            record
            for record in self._given
            if (said := record.acknowledgement) is None or said.kind is _RENEW
        ]
        missing = [r for r in self._unfinished if r.acknowledgement is None and not r.lock_lost]
        if missing:
            raise IllegalStateError(
                f"{len(missing)} records are not acknowledged, the first is {missing[0]!r}"
            )

    def accept_rest(self) -> None:
        """In implicit mode: accept what was given and is not lost."""
        if self._explicit:
            return
        given, self._given = self._given, []
        if len(given) == 1 and not given[0].lock_lost:  # of an iteration: sent with its neighbours as one run
            given[0].acquisition.sink.decide(given[0], _ACCEPT)
            return
        if any(acquisition.lost for acquisition, _, _ in spans(given)):
            given = [record for record in given if not record.lock_lost]
        for acquisition, first, last in spans(given):
            acquisition.sink.decide_run(acquisition, first, last, _ACCEPT)

    @property
    def renewing(self) -> bool:
        """Whether the outcome of a renewal is not known yet; of those that `check_answered` found."""
        return any(
            said is not None and said.kind is _RENEW and not said.done
            for said in (record.acknowledgement for record in self._unfinished)
        )

    def take_renewed(self) -> list[Record]:
        """Records whose lock was renewed: they are given again, for a final word."""
        again = [
            record
            for record in self._unfinished
            if (said := record.acknowledgement) is not None and said.holds_on
        ]
        if again:
            self.give(again)
            for record in again:
                record.acknowledgement = None
        return again


def _is_open(record: Record) -> bool:
    said = record.acknowledgement
    if said is not None and said.kind is not _RENEW and said.error is None:
        return False
    return not record.lock_lost
