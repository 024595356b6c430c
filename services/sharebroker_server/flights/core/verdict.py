"""Whether every record was finished exactly once: the coordinator's state against the books of the run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_server.flights.core.flight import Answer
from sharebroker_server.flights.core.ledger import Ledger, Place

ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the share coordinator holds of a share-partition.

    Everything below `start` is finished; above it lie `runs` of (first, last, delivery state), ascending.
    """

    start: int
    runs: tuple[tuple[int, int, int], ...] = ()

    def finished(self, offset: int) -> bool:
        """Whether the record is accepted or archived for good."""
        if offset < self.start:
            return True
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        if index < 0:
            return False
        _, last, state = self.runs[index]
        return offset <= last and state in (ACKNOWLEDGED, ARCHIVED)

    def offsets(self, end: int) -> list[int]:
        """All finished offsets below `end`."""
        return [offset for offset in range(end) if self.finished(offset)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The account of a run; the lists hold offending records."""

    published: int
    earlier: int
    accepted: int
    rejected: int
    missing: tuple[Place, ...]
    unexplained: tuple[Place, ...]
    redelivered: tuple[Place, ...]

    @property
    def good(self) -> bool:
        """Whether nothing is missing, nothing came back after it was accepted, and the sums agree."""
        offending = self.missing or self.unexplained or self.redelivered
        return not offending and self.published == self.earlier + self.accepted + self.rejected


def finished_places(ends: Mapping[int, int], states: Mapping[int, PartitionState]) -> set[Place]:
    """Every finished record; `ends` are the log end offsets by partition."""
    return {
        (partition, offset) for partition, end in ends.items() for offset in states[partition].offsets(end)
    }


def judge_run(ends: Mapping[int, int], before: set[Place], finished: set[Place], ledger: Ledger) -> Verdict:
    """Judges a run: `before` was finished when it began, `finished` is now."""
    everything = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    answers = [final.answer for final in ledger.finals.values()]
    return Verdict(
        published=len(everything),
        earlier=len(before),
        accepted=answers.count(Answer.ACCEPT),
        rejected=answers.count(Answer.REJECT),
        missing=tuple(sorted(everything - finished)),
        unexplained=tuple(sorted(finished - before - ledger.finals.keys())),
        redelivered=tuple(sorted(_redelivered(before, ledger))),
    )


def _redelivered(before: set[Place], ledger: Ledger) -> set[Place]:
    """Records handed out although they were finished.

    A worker may look at its mail late: a delivery with a lower number was acquired before the one accepted,
    whenever it is seen.
    """
    found = set()
    for delivery, at in ledger.deliveries:
        final = ledger.finals.get(delivery.place)
        late = final is not None and at > final.at and delivery.attempt >= final.attempt
        if late or delivery.place in before:
            found.add(delivery.place)
    return found


def ranges(places: Iterable[Place]) -> list[str]:
    """Places in words, runs joined: "partition 3: 17-20"."""
    runs: list[list[int]] = []
    for partition, offset in sorted(places):
        if runs and runs[-1][0] == partition and runs[-1][2] + 1 == offset:
            runs[-1][2] = offset
        else:
            runs.append([partition, offset, offset])
    return [
        f"partition {partition}: {first}" if first == last else f"partition {partition}: {first}-{last}"
        for partition, first, last in runs
    ]
