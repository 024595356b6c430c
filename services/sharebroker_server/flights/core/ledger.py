"""The books of a run: the deliveries and acknowledgements that workers report, and the verdict over them.

Theory of operation
-------------------

A worker reports a batch twice, in one JSON line each: first the records that it received, before it
acknowledges them, then the results of the acknowledgements. The worker may be killed at any moment, so a
report may be missing, and reports of different workers may arrive in any order. The counts therefore depend
only on the content of reports:

* An acknowledgement counts once it is confirmed. If its lock was lost, nothing was applied.
* An acknowledgement is orphaned if its worker died or did not receive the outcome, unless another worker
  received the record since. The share coordinator's state resolves it at the end of the run.
* A delivery count above 1 without a preceding release is a lost lock.

The verdict compares the ledger with the share coordinator's state: every record is finished, is explained
by exactly one acknowledgement or by an earlier run, and was not delivered after it was finished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from sharebroker_server.flights.core.flight import FlightAcknowledgement
from sharebroker_server.flights.core.statistics import RunSummary

RecordId = tuple[int, int]
"""(partition, offset)"""
Batch = tuple[str, int]
"""(worker, number of its batch)"""

ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4


class FlightDelivery(NamedTuple):
    """A record delivered to a worker, and the worker's acknowledgement."""

    partition: int
    offset: int
    delivery_count: int
    acknowledgement: FlightAcknowledgement
    carrier: str
    route: str
    departure: int
    arrival: int

    @property
    def record_id(self) -> RecordId:
        """The partition and offset of the record."""
        return self.partition, self.offset


class Confirmation(NamedTuple):
    """A confirmed accept or reject, with its delivery count and the time of confirmation."""

    acknowledgement: FlightAcknowledgement
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
    """The ledger of one run. `at` is the monotonic clock in seconds, which all processes share."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.summary = RunSummary()
        self.finals: dict[RecordId, Confirmation] = {}
        self.deliveries: list[tuple[FlightDelivery, float]] = []
        self._open: dict[Batch, list[FlightDelivery]] = {}
        self._holder: dict[RecordId, Batch] = {}
        self._orphans: dict[RecordId, FlightDelivery] = {}
        self._delivery_counts: dict[RecordId, int] = {}

    def delivered(self, batch: Batch, at: float, deliveries: Iterable[FlightDelivery]) -> None:
        """Records that a worker received records and acknowledges them next."""
        self._open[batch] = list(deliveries)
        for delivery in self._open[batch]:
            record_id = delivery.record_id
            self.deliveries.append((delivery, at))
            self._holder[record_id] = batch
            self._orphans.pop(record_id, None)
            previous = self._delivery_counts.get(record_id, 1)
            if delivery.delivery_count > previous:
                self.totals.repeats += delivery.delivery_count - previous
                self._delivery_counts[record_id] = delivery.delivery_count

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
            if record_id in finished and delivery.acknowledgement is not FlightAcknowledgement.RELEASE:
                self._count(self._orphans.pop(record_id), at)

    def _orphan(self, batch: Batch, delivery: FlightDelivery) -> None:
        if self._holder[delivery.record_id] == batch:  # no other worker received it since
            self._orphans[delivery.record_id] = delivery

    def _count(self, delivery: FlightDelivery, at: float) -> None:
        acknowledgement = delivery.acknowledgement
        if acknowledgement is FlightAcknowledgement.RELEASE:
            self.totals.released += 1
            return
        self.finals[delivery.record_id] = Confirmation(acknowledgement, delivery.delivery_count, at)
        if acknowledgement is FlightAcknowledgement.ACCEPT:
            self.totals.accepted += 1
        else:
            self.totals.rejected += 1
        minutes = (delivery.departure, delivery.arrival)
        self.summary.count(acknowledgement, delivery.carrier, delivery.route, minutes)


def delivered(batch: int, at: float, deliveries: Iterable[FlightDelivery]) -> bytes:
    """Returns the report of records received at `at`, which are acknowledged next."""
    return _line({"batch": batch, "at": at, "got": list(map(tuple, deliveries))})


def confirmed(batch: int, at: float, failed: Mapping[RecordId, bool]) -> bytes:
    """Returns the report that a batch's acknowledgements are durable.

    `failed` lists the exceptions (see `Ledger.confirmed`).
    """
    return _line({"batch": batch, "at": at, "failed": [(*record, lost) for record, lost in failed.items()]})


def add_report(line: bytes, worker: str, ledger: Ledger) -> None:
    """Adds a report to the ledger. Raises ValueError if the line is invalid."""
    report = orjson.loads(line)
    batch = (worker, report["batch"])
    if "got" in report:
        deliveries = [
            FlightDelivery(partition, offset, count, FlightAcknowledgement(acknowledgement), *facts)
            for partition, offset, count, acknowledgement, *facts in report["got"]
        ]
        ledger.delivered(batch, report["at"], deliveries)
    else:
        failed = {(partition, offset): lost for partition, offset, lost in report["failed"]}
        ledger.confirmed(batch, report["at"], failed)


def _line(report: dict[str, object]) -> bytes:
    return orjson.dumps(report) + b"\n"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The share coordinator's state of a share-partition.

    Everything below `start` is finished; above it are `runs` of (first, last, delivery state), ascending.
    """

    start: int
    runs: tuple[tuple[int, int, int], ...] = ()

    def finished(self, end: int) -> set[int]:
        """Returns all accepted or archived offsets below `end`."""
        ended = [(first, last) for first, last, state in self.runs if state in (ACKNOWLEDGED, ARCHIVED)]
        ranges = [(0, self.start - 1), *ended]
        return {offset for first, last in ranges for offset in range(first, min(last + 1, end))}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The result of a run; the lists contain the records with errors."""

    published: int
    earlier: int
    accepted: int
    rejected: int
    missing: tuple[RecordId, ...]
    unexplained: tuple[RecordId, ...]
    redelivered: tuple[RecordId, ...]

    @property
    def good(self) -> bool:
        """Whether no record is missing, none was redelivered after it was finished, and the sums agree."""
        offending = self.missing or self.unexplained or self.redelivered
        return not offending and self.published == self.earlier + self.accepted + self.rejected


def finished_records(ends: Mapping[int, int], states: Mapping[int, PartitionState]) -> set[RecordId]:
    """Returns every finished record; `ends` are the log end offsets by partition."""
    return {(number, offset) for number, end in ends.items() for offset in states[number].finished(end)}


def judge_run(
    ends: Mapping[int, int], before: set[RecordId], finished: set[RecordId], ledger: Ledger
) -> RunVerdict:
    """Returns the verdict of a run: `before` was finished at its start, `finished` at its end."""
    published = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    acknowledgements = [final.acknowledgement for final in ledger.finals.values()]
    return RunVerdict(
        published=len(published),
        earlier=len(before),
        accepted=acknowledgements.count(FlightAcknowledgement.ACCEPT),
        rejected=acknowledgements.count(FlightAcknowledgement.REJECT),
        missing=tuple(sorted(published - finished)),
        unexplained=tuple(sorted(finished - before - ledger.finals.keys())),
        redelivered=tuple(sorted(_redelivered(before, ledger))),
    )


def _redelivered(before: set[RecordId], ledger: Ledger) -> set[RecordId]:
    """Returns the records that were delivered although they were finished.

    A worker may report late: a delivery with a lower count was acquired before the accepted one, whenever it
    is reported.
    """
    found = set()
    for delivery, at in ledger.deliveries:
        final = ledger.finals.get(delivery.record_id)
        late = final is not None and at > final.at and delivery.delivery_count >= final.delivery_count
        if late or delivery.record_id in before:
            found.add(delivery.record_id)
    return found


def ranges(record_ids: Iterable[RecordId]) -> list[str]:
    """Returns a text per range of records, such as "partition 3: 17-20"."""
    runs: list[list[int]] = []
    for partition, offset in sorted(record_ids):
        if runs and runs[-1][0] == partition and runs[-1][2] + 1 == offset:
            runs[-1][2] = offset
        else:
            runs.append([partition, offset, offset])
    return [
        f"partition {partition}: {first}" if first == last else f"partition {partition}: {first}-{last}"
        for partition, first, last in runs
    ]
