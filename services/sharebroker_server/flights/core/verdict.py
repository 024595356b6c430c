"""Verifies that every record was finished exactly once, by comparing the coordinator's state and
the ledger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.ledger import Ledger, RecordId

ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The share coordinator's state of a share-partition.

    Everything below `start` is finished; above it are `runs` of (first, last, delivery state), ascending.
    """

    start: int
    runs: tuple[tuple[int, int, int], ...] = ()

    def finished(self, offset: int) -> bool:
        """Returns whether the record is accepted or archived."""
        if offset < self.start:
            return True
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        if index < 0:
            return False
        _, last, state = self.runs[index]
        return offset <= last and state in (ACKNOWLEDGED, ARCHIVED)

    def offsets(self, end: int) -> list[int]:
        """Returns all finished offsets below `end`."""
        return [offset for offset in range(end) if self.finished(offset)]


@dataclass(frozen=True, slots=True)
class Verdict:
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
    return {
        (partition, offset) for partition, end in ends.items() for offset in states[partition].offsets(end)
    }


def judge_run(
    ends: Mapping[int, int], before: set[RecordId], finished: set[RecordId], ledger: Ledger
) -> Verdict:
    """Returns the verdict of a run: `before` was finished at its start, `finished` at its end."""
    published = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    acknowledgements = [final.acknowledgement for final in ledger.finals.values()]
    return Verdict(
        published=len(published),
        earlier=len(before),
        accepted=acknowledgements.count(Acknowledgement.ACCEPT),
        rejected=acknowledgements.count(Acknowledgement.REJECT),
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
