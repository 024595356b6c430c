"""The fate of every offset of a share-partition between the start and the end of its log: exactly one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from sharebroker.verification.runs import Run, Span, at


class OffsetOutcome(StrEnum):
    """What became of an offset, as the logs tell."""

    PASSED = "passed"
    """Below the share-partition's start offset: finished, or skipped by whoever set the start."""
    ACCEPTED = "accepted"
    ARCHIVED = "archived"
    IN_DELIVERY = "in delivery"
    """A consumer holds it, or it was released for later; the leader knows, no log does."""
    AVAILABLE = "available"
    GAP = "gap"
    """There is no record: a transaction's marker, or one that was lost."""
    UNDECIDED = "undecided"
    """The group has not chosen where to start in this partition."""

    @property
    def key(self) -> str:
        """Its name for programs."""
        return self.value.replace(" ", "_")


_STORED: Final[Mapping[int, OffsetOutcome]] = {
    2: OffsetOutcome.ACCEPTED,
    3: OffsetOutcome.ARCHIVED,
    4: OffsetOutcome.ARCHIVED,
}


class OutcomeRun(NamedTuple):
    """Offsets, both ends inclusive, of one fate; `deliveries` as stored."""

    first: int
    last: int
    fate: OffsetOutcome
    deliveries: int

    @property
    def offsets(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class RecordLog:
    """The record log, from `start` to `end` without the latter; what of it is held, and what has no record.

    Spans ascend and do not overlap.
    """

    start: int
    end: int
    held: Sequence[Span] = ()
    markers: Sequence[Span] = ()
    missing: Sequence[Span] = ()


def fates(log: RecordLog, start: int, runs: Sequence[Run]) -> list[OutcomeRun]:
    """All offsets of a log; `start` is the share-partition's, -1: not chosen yet."""
    gaps, held = sorted((*log.markers, *log.missing)), sorted(log.held)
    inner = {start, *(edge for span in (*runs, *gaps, *held) for edge in (span[0], span[1] + 1))}
    edges = [log.start, *sorted(edge for edge in inner if log.start < edge < log.end), log.end]
    told: list[OutcomeRun] = []
    for first, after in pairwise(edges):
        fate = _fate(first, start, runs, gaps, held)
        if told and told[-1][2:] == fate:
            told[-1] = told[-1]._replace(last=after - 1)
        elif first < after:
            told.append(OutcomeRun(first, after - 1, *fate))
    return told


def _fate(
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
