"""Who was handed which record, what was answered, and what of it is confirmed: the books of a run.

Reports of different workers come in any order; what is counted depends on their content alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_server.flights.core.flight import Answer
from sharebroker_server.flights.core.summary import Summary

Place = tuple[int, int]
"""(partition, offset)"""
Batch = tuple[str, int]
"""(worker, number of its batch)"""


class Delivery(NamedTuple):
    """One record handed to a worker, and what the worker is about to answer."""

    partition: int
    offset: int
    attempt: int
    answer: Answer
    carrier: str
    route: str
    departure: int
    arrival: int

    @property
    def place(self) -> Place:
        """Where the record lies."""
        return self.partition, self.offset


class Final(NamedTuple):
    """A confirmed accept or reject, by the number of its delivery, and when it was confirmed."""

    answer: Answer
    attempt: int
    at: float


@dataclass(slots=True)
class Totals:
    """Counts for people; `repeats` are deliveries beyond each record's first."""

    accepted: int = 0
    released: int = 0
    rejected: int = 0
    repeats: int = 0

    @property
    def lost(self) -> int:
        """Locks lost: deliveries that came about because nobody answered in time, not by a release."""
        return max(0, self.repeats - self.released)


class Ledger:
    """Books one run. `at` is the machine's monotonic clock in seconds, the same for all processes.

    An answer is orphaned when its worker died or never learnt the outcome: the coordinator knows.
    """

    __slots__ = ("_attempts", "_holder", "_open", "_orphans", "deliveries", "finals", "summary", "totals")

    def __init__(self) -> None:
        self.totals = Totals()
        self.summary = Summary()
        self.finals: dict[Place, Final] = {}
        self.deliveries: list[tuple[Delivery, float]] = []
        self._open: dict[Batch, list[Delivery]] = {}
        self._holder: dict[Place, Batch] = {}
        self._orphans: dict[Place, Delivery] = {}
        self._attempts: dict[Place, int] = {}

    def handed_out(self, batch: Batch, at: float, deliveries: Iterable[Delivery]) -> None:
        """A worker has received records and answers them next."""
        self._open[batch] = list(deliveries)
        for delivery in self._open[batch]:
            self.deliveries.append((delivery, at))
            self._holder[delivery.place] = batch
            self._orphans.pop(delivery.place, None)
            known = self._attempts.get(delivery.place, 1)
            if delivery.attempt > known:
                self.totals.repeats += delivery.attempt - known
                self._attempts[delivery.place] = delivery.attempt

    def confirmed(self, batch: Batch, at: float, failed: Mapping[Place, bool]) -> None:
        """The worker's answers are durable, save those that failed.

        `failed` says True where the lock was lost: nothing was applied; False where the outcome is unknown.
        """
        for delivery in self._open.pop(batch):
            if delivery.place not in failed:
                self._book(delivery, at)
            elif not failed[delivery.place]:
                self._orphan(batch, delivery)

    def holding(self, worker: str) -> int:
        """Records a worker has told of and not yet answered for."""
        return sum(len(deliveries) for batch, deliveries in self._open.items() if batch[0] == worker)

    def died(self, worker: str) -> None:
        """The worker is gone, and its open answers are orphans."""
        for batch in [batch for batch in self._open if batch[0] == worker]:
            for delivery in self._open.pop(batch):
                self._orphan(batch, delivery)

    def settle(self, finished: Collection[Place], at: float) -> None:
        """Books the orphaned answers that turn out to have counted."""
        for place, delivery in list(self._orphans.items()):
            if place in finished and delivery.answer is not Answer.RELEASE:
                self._book(self._orphans.pop(place), at)

    def _orphan(self, batch: Batch, delivery: Delivery) -> None:
        if self._holder[delivery.place] == batch:  # nobody else was handed it since
            self._orphans[delivery.place] = delivery

    def _book(self, delivery: Delivery, at: float) -> None:
        if delivery.answer is Answer.RELEASE:
            self.totals.released += 1
            return
        self.finals[delivery.place] = Final(delivery.answer, delivery.attempt, at)
        if delivery.answer is Answer.ACCEPT:
            self.totals.accepted += 1
        else:
            self.totals.rejected += 1
        minutes = (delivery.departure, delivery.arrival)
        self.summary.count(delivery.answer, delivery.carrier, delivery.route, minutes)
