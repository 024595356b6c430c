"""Keeps the locks of unanswered records alive (`auto_renew`)."""

from __future__ import annotations

from collections.abc import Iterator

from sharebroker.acks.accumulator import Accumulator
from sharebroker.records.record import AcknowledgeType, Acquisition, Record

Span = tuple[Acquisition, int, int]


class Renewal:
    """Remembers what was delivered until it is answered."""

    def __init__(self) -> None:
        self._batches: list[list[Record]] = []

    def watch(self, records: list[Record]) -> None:
        """Renew these when their time comes."""
        self._batches.append(records)

    def renew(self, accumulator: Accumulator, before: float) -> None:
        """Queue renewals of this connection's unanswered records whose lock ends `before` (wall clock)."""
        remaining = []
        for batch in self._batches:
            unanswered = [record for record in batch if _unanswered(record, accumulator)]
            if unanswered:
                remaining.append(unanswered)
            ending = [record for record in unanswered if record.deadline < before]
            for acquisition, first, last in _spans(ending):
                accumulator.add_silent(acquisition, (first, last), AcknowledgeType.RENEW)
        self._batches = remaining


def _unanswered(record: Record, accumulator: Accumulator) -> bool:
    open_ = record.acknowledgement is None or record.acknowledgement.kind is AcknowledgeType.RENEW
    return open_ and record.acquisition.sink is accumulator and not record.lock_lost


def _spans(records: list[Record]) -> Iterator[Span]:
    """Runs of consecutive offsets of one acquisition."""
    start = 0
    for end in range(1, len(records) + 1):
        if end < len(records):
            last, following = records[end - 1], records[end]
            if following.acquisition is last.acquisition and following.offset == last.offset + 1:
                continue
        yield records[start].acquisition, records[start].offset, records[end - 1].offset
        start = end
