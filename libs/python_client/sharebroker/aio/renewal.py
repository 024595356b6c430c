"""Keeps the locks of unanswered records alive (`auto_renew`)."""

from __future__ import annotations

from sharebroker.acks.accumulator import Accumulator
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans


class Renewal:
    """Remembers what was delivered until it is answered.

    Times are the client's own, from when the records came: the server's clock may be another.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[float, list[Record]]] = []

    def watch(self, records: list[Record], now: float) -> None:
        """These have come at `now`."""
        self._batches.append((now, records))

    def renew(self, accumulator: Accumulator, now: float, every: float) -> None:
        """Queue renewals for what came or was renewed `every` seconds ago and is not answered yet."""
        remaining = []
        for since, batch in self._batches:
            unanswered = [record for record in batch if _unanswered(record, accumulator)]
            due = now - since >= every
            if due:
                for acquisition, first, last in spans(unanswered):
                    accumulator.add_silent(acquisition, (first, last), AcknowledgeType.RENEW)
            if unanswered:
                remaining.append((now if due else since, unanswered))
        self._batches = remaining


def _unanswered(record: Record, accumulator: Accumulator) -> bool:
    said = record.acknowledgement
    open_ = said is None or said.kind is AcknowledgeType.RENEW
    return open_ and record.acquisition.sink is accumulator and not record.lock_lost
