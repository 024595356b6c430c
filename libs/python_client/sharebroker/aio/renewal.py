"""Renews the locks of unacknowledged records (`auto_renew`)."""

from __future__ import annotations

from sharebroker.acks.accumulator import Accumulator
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans


class Renewal:
    """Stores delivered records until they are acknowledged.

    Times are the client's loop times of arrival, because the server's clock may differ.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[float, list[Record]]] = []

    def watch(self, records: list[Record], now: float) -> None:
        """Adds records that arrived at `now`."""
        self._batches.append((now, records))

    def renew(self, accumulator: Accumulator, now: float, every: float) -> None:
        """Queues renewals of unacknowledged records whose lock began at least `every` seconds ago."""
        remaining = []
        for since, batch in self._batches:
            unacknowledged = [record for record in batch if _is_unacknowledged(record, accumulator)]
            due = now - since >= every
            if due:
                for acquisition, first, last in spans(unacknowledged):
                    accumulator.queue_internal(acquisition, (first, last), AcknowledgeType.RENEW)
            if unacknowledged:
                remaining.append((now if due else since, unacknowledged))
        self._batches = remaining


def _is_unacknowledged(record: Record, accumulator: Accumulator) -> bool:
    ack = record.acknowledgement
    unanswered_ = ack is None or ack.kind is AcknowledgeType.RENEW
    return unanswered_ and record.acquisition.sink is accumulator and not record.lock_lost
