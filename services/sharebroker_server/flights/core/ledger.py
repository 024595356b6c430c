"""Records the deliveries and acknowledgements of a run.

Reports of different workers may arrive in any order; the counts depend only on their content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.summary import Summary

RecordId = tuple[int, int]
"""(partition, offset)"""
Batch = tuple[str, int]
"""(worker, number of its batch)"""


class Delivery(NamedTuple):
    """A record delivered to a worker, and the worker's acknowledgement."""

    partition: int
    offset: int
    delivery_count: int
    acknowledgement: Acknowledgement
    carrier: str
    route: str
    departure: int
    arrival: int

    @property
    def record_id(self) -> RecordId:
        """The partition and offset of the record."""
        return self.partition, self.offset


class Final(NamedTuple):
    """A confirmed accept or reject, with its delivery count and the time of confirmation."""

    acknowledgement: Acknowledgement
    delivery_count: int
    at: float


@dataclass(slots=True)
class Totals:
    """Counts for display; `repeats` are deliveries beyond the first of each record."""

    accepted: int = 0
    released: int = 0
    rejected: int = 0
    repeats: int = 0

    @property
    def lost(self) -> int:
        """The number of lost locks: redeliveries without a preceding release."""
        return max(0, self.repeats - self.released)


class Ledger:
    """The ledger of one run. `at` is the monotonic clock in seconds, which all processes share.

    An acknowledgement is orphaned if its worker died or did not receive the outcome; the share coordinator's
    state resolves it.
    """

    __slots__ = (
        "_delivery_counts",
        "_holder",
        "_open",
        "_orphans",
        "deliveries",
        "finals",
        "summary",
        "totals",
    )

    def __init__(self) -> None:
        self.totals = Totals()
        self.summary = Summary()
        self.finals: dict[RecordId, Final] = {}
        self.deliveries: list[tuple[Delivery, float]] = []
        self._open: dict[Batch, list[Delivery]] = {}
        self._holder: dict[RecordId, Batch] = {}
        self._orphans: dict[RecordId, Delivery] = {}
        self._delivery_counts: dict[RecordId, int] = {}

    def delivered(self, batch: Batch, at: float, deliveries: Iterable[Delivery]) -> None:
        """Records that a worker received records and acknowledges them next."""
        self._open[batch] = list(deliveries)
        for delivery in self._open[batch]:
            self.deliveries.append((delivery, at))
            self._holder[delivery.record_id] = batch
            self._orphans.pop(delivery.record_id, None)
            previous = self._delivery_counts.get(delivery.record_id, 1)
            if delivery.delivery_count > previous:
                self.totals.repeats += delivery.delivery_count - previous
                self._delivery_counts[delivery.record_id] = delivery.delivery_count

    def confirmed(self, batch: Batch, at: float, failed: Mapping[RecordId, bool]) -> None:
        """Records that a batch's acknowledgements are durable, except those that failed.

        `failed` maps to True if the lock was lost (nothing was applied), to False if the outcome is unknown.
        """
        for delivery in self._open.pop(batch):
            if delivery.record_id not in failed:
                self._count(delivery, at)
            elif not failed[delivery.record_id]:
                self._orphan(batch, delivery)

    def holding(self, worker: str) -> int:
        """Returns the number of records that a worker has received and not yet acknowledged."""
        return sum(len(deliveries) for batch, deliveries in self._open.items() if batch[0] == worker)

    def died(self, worker: str) -> None:
        """Marks the open acknowledgements of a dead worker as orphaned."""
        for batch in [batch for batch in self._open if batch[0] == worker]:
            for delivery in self._open.pop(batch):
                self._orphan(batch, delivery)

    def resolve_orphans(self, finished: Collection[RecordId], at: float) -> None:
        """Counts the orphaned acknowledgements that took effect."""
        for record_id, delivery in list(self._orphans.items()):
            if record_id in finished and delivery.acknowledgement is not Acknowledgement.RELEASE:
                self._count(self._orphans.pop(record_id), at)

    def _orphan(self, batch: Batch, delivery: Delivery) -> None:
        if self._holder[delivery.record_id] == batch:  # no other worker received it since
            self._orphans[delivery.record_id] = delivery

    def _count(self, delivery: Delivery, at: float) -> None:
        if delivery.acknowledgement is Acknowledgement.RELEASE:
            self.totals.released += 1
            return
        self.finals[delivery.record_id] = Final(delivery.acknowledgement, delivery.delivery_count, at)
        if delivery.acknowledgement is Acknowledgement.ACCEPT:
            self.totals.accepted += 1
        else:
            self.totals.rejected += 1
        minutes = (delivery.departure, delivery.arrival)
        self.summary.count(delivery.acknowledgement, delivery.carrier, delivery.route, minutes)
