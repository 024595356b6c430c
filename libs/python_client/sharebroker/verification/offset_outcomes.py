"""The outcome of every offset of a share-partition, from the start to the end of its log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from sharebroker.verification.runs import Run, Span, at


class OffsetOutcome(StrEnum):
    """The outcome of an offset, derived from the logs."""

    PASSED = "passed"
    """Below the start offset: finished, or skipped by a reset of the offset."""
    ACCEPTED = "accepted"
    ARCHIVED = "archived"
    IN_DELIVERY = "in delivery"
    """Held by a member, or released with a delay; stored only in the leader's memory."""
    AVAILABLE = "available"
    GAP = "gap"
    """No record at this offset: a transaction marker, or a missing record."""
    UNDECIDED = "undecided"
    """The group has no start offset in this partition yet."""

    @property
    def key(self) -> str:
        """The name in JSON output."""
        return self.value.replace(" ", "_")


_STORED: Final[Mapping[int, OffsetOutcome]] = {
    2: OffsetOutcome.ACCEPTED,
    3: OffsetOutcome.ARCHIVED,
    4: OffsetOutcome.ARCHIVED,
}


class OutcomeRun(NamedTuple):
    """Offsets (last inclusive) with one outcome; `deliveries` is the stored delivery count."""

    first: int
    last: int
    outcome: OffsetOutcome
    deliveries: int

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class RecordLog:
    """The record log from `start` (inclusive) to `end` (exclusive).

    `held` lists offsets that a member holds, `markers` transaction markers, `missing` offsets without a
    record. Spans are ascending and disjoint.
    """

    start: int
    end: int
    held: Sequence[Span] = ()
    markers: Sequence[Span] = ()
    missing: Sequence[Span] = ()


def outcome_runs(log: RecordLog, start: int, runs: Sequence[Run]) -> list[OutcomeRun]:
    """Returns the outcome of all offsets of a log. `start` is the group's start offset; -1: none chosen."""
    gaps, held = sorted((*log.markers, *log.missing)), sorted(log.held)
    inner = {start, *(edge for span in (*runs, *gaps, *held) for edge in (span[0], span[1] + 1))}
    edges = [log.start, *sorted(edge for edge in inner if log.start < edge < log.end), log.end]
    found: list[OutcomeRun] = []
    for first, after in pairwise(edges):
        outcome = _outcome(first, start, runs, gaps, held)
        if found and found[-1][2:] == outcome:
            found[-1] = found[-1]._replace(last=after - 1)
        elif first < after:
            found.append(OutcomeRun(first, after - 1, *outcome))
    return found


def _outcome(
    offset: int, start: int, runs: Sequence[Run], gaps: Sequence[Span], held: Sequence[Span]
) -> tuple[OffsetOutcome, int]:
    if offset < start:
        return OffsetOutcome.PASSED, 0
    if _within(offset, gaps):
        return OffsetOutcome.GAP, 0
    state, deliveries = at(runs, offset)
    if state in _STORED:
        return _STORED[state], deliveries
    if _within(offset, held):
        return OffsetOutcome.IN_DELIVERY, deliveries
    return (OffsetOutcome.UNDECIDED if start < 0 else OffsetOutcome.AVAILABLE), deliveries


def _within(offset: int, spans: Sequence[Span]) -> bool:
    index = bisect_right(spans, offset, key=lambda span: span.first) - 1
    return index >= 0 and offset <= spans[index].last
