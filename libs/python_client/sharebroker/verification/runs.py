"""Runs of offsets: replay of state batches, comparison of two states, and the outcome of every offset.

Replay follows KIP-932's rule: of all states written for an offset, the one with more deliveries wins, then
the higher state, and of equal ones the last, whose time counts. The share coordinator applies its log
record by record instead; verification compares both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from sharebroker_protocol.model import DISPOSITION_NAMES


class OffsetRun(NamedTuple):
    """Offsets (last inclusive) in one state: 0 available, 2 acknowledged, 3 archiving, 4 archived.

    Available records are not delivered before `not_before_ms`, by the clock of Redis; 0: at once. With a
    `lock_token` they have a durable lock until then. Archiving records failed at `failed_ms` with a
    `disposition`; 0: not stored.
    """

    first: int
    last: int
    state: int
    deliveries: int
    not_before_ms: int = 0
    lock_token: int = 0
    disposition: int = 0
    failed_ms: int = 0


class OffsetSpan(NamedTuple):
    """A range of offsets."""

    first: int
    """The first offset."""
    last: int
    """The last offset, inclusive."""


UNTOUCHED: Final = (0, 0, 0, 0, 0, 0)
"""The fields of an OffsetRun from `state` on, of an offset without a written state."""


def replay(written: Iterable[OffsetRun], start: int) -> list[OffsetRun]:
    """Returns the replayed state from `start` on: ascending, disjoint, maximal runs. O(n log n).

    `written` is in the order of the log.
    """
    ordered = sorted(
        (run.first, order, run) for order, run in enumerate(written) if max(run.first, start) <= run.last
    )
    edges = sorted({edge for _, _, run in ordered for edge in (max(run.first, start), run.last + 1)})
    known: list[OffsetRun] = []
    open_runs: list[tuple[int, int, int, OffsetRun]] = []  # greatest first
    begun = 0
    for first, after in pairwise(edges):
        while begun < len(ordered) and ordered[begun][0] <= first:
            _, order, run = ordered[begun]
            heappush(open_runs, (-run.deliveries, -run.state, -order, run))
            begun += 1
        while open_runs and open_runs[0][3].last < first:
            heappop(open_runs)
        if open_runs:
            _add(known, open_runs[0][3]._replace(first=first, last=after - 1))
    return known


def differences(left: Sequence[OffsetRun], right: Sequence[OffsetRun]) -> Iterator[OffsetSpan]:
    """Yields the spans in which two states (ascending, disjoint runs) differ."""
    for first, after in pairwise(sorted({edge for run in (*left, *right) for edge in (run[0], run[1] + 1)})):
        if at(left, first) != at(right, first):
            yield OffsetSpan(first, after - 1)


def at(runs: Sequence[OffsetRun], offset: int) -> tuple[int, int, int, int, int, int]:
    """Returns the fields from `state` on of an offset in ascending, disjoint runs."""
    index = bisect_right(runs, offset, key=lambda run: run.first) - 1
    if index < 0 or runs[index].last < offset:
        return UNTOUCHED
    return runs[index][2:]


def _add(known: list[OffsetRun], run: OffsetRun) -> None:
    """Appends a run, or extends the last one if it continues it."""
    before = known[-1] if known else None
    if before and before.last + 1 == run.first and before[2:] == run[2:]:
        known[-1] = before._replace(last=run.last)
    else:
        known.append(run)


class OffsetOutcome(StrEnum):
    """The outcome of an offset, derived from the logs."""

    PASSED = "passed"
    """Below the start offset: finished, or skipped by a reset of the offset."""
    ACCEPTED = "accepted"
    ARCHIVED = "archived"
    """Finished without a member's acceptance; no disposition is listed."""
    ARCHIVING = "archiving"
    """Failed; it becomes archived once its dead letter is written."""
    REJECTED = "rejected"
    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    IN_DELIVERY = "in delivery"
    """Held by a member: by a lock in the leader's memory, or by a durable one."""
    WAITING = "waiting"
    """Available, but not delivered before the end of a delay."""
    AVAILABLE = "available"
    GAP = "gap"
    """No record at this offset: a transaction marker, or a missing record."""
    FOR_OTHERS = "for others"
    """A copy of a failed record that only another group receives."""
    UNDECIDED = "undecided"
    """The group has no start offset in this partition yet."""

    @property
    def key(self) -> str:
        """The name in JSON output."""
        return self.value.replace(" ", "_")


_STORED: Final[Mapping[int, OffsetOutcome]] = {
    2: OffsetOutcome.ACCEPTED,
    3: OffsetOutcome.ARCHIVING,
    4: OffsetOutcome.ARCHIVED,
}


_UNFINISHED: Final = frozenset({OffsetOutcome.AVAILABLE, OffsetOutcome.UNDECIDED, OffsetOutcome.IN_DELIVERY})
"""Outcomes of records that wait, or have a durable lock, if their time is not reached.

A leader lists them among those in memory.
"""


class OutcomeRun(NamedTuple):
    """Offsets (last inclusive) with one outcome; `deliveries` is the stored delivery count.

    `failed_at` is the time of a failure in seconds since the Unix epoch, 0 for other outcomes. Archiving
    records have a `disposition`; it is "" for other outcomes.
    """

    first: int
    last: int
    outcome: OffsetOutcome
    deliveries: int
    failed_at: float = 0.0
    disposition: str = ""

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


_WITHOUT_DISPOSITION: Final = frozenset({OffsetOutcome.PASSED, OffsetOutcome.ARCHIVED})

_Span = TypeVar("_Span", OffsetSpan, OutcomeRun)


@dataclass(frozen=True, slots=True)
class RecordLog:
    """The record log from `start` (inclusive) to `end` (exclusive).

    `held` lists offsets that a member holds, `markers` transaction markers, `missing` offsets without a
    record, `for_others` copies that only another group receives. Spans are ascending and disjoint.
    """

    start: int
    end: int
    held: Sequence[OffsetSpan] = ()
    markers: Sequence[OffsetSpan] = ()
    missing: Sequence[OffsetSpan] = ()
    for_others: Sequence[OffsetSpan] = ()


def outcome_runs(
    log: RecordLog,
    start: int,
    runs: Sequence[OffsetRun],
    now_ms: float = 0.0,
    failed: Sequence[OutcomeRun] = (),
) -> list[OutcomeRun]:
    """Returns the outcome of all offsets of a log at a time.

    `start` is the group's start offset; -1: none chosen. `failed` are the failed records, ascending.
    """
    gaps, held = sorted((*log.markers, *log.missing)), sorted(log.held)
    spans = (*runs, *gaps, *held, *log.for_others)
    inner = {start, *(edge for span in spans for edge in (span[0], span[1] + 1))}
    inner |= {edge for entry in failed for edge in (entry.first, entry.last + 1)}
    edges = [log.start, *sorted(edge for edge in inner if log.start < edge < log.end), log.end]
    found: list[OutcomeRun] = []
    for first, after in pairwise(edges):
        kind, deliveries = _outcome(first, start, runs, gaps, held)
        outcome: tuple[OffsetOutcome, int, float, str] = (kind, deliveries, 0.0, "")
        _, _, not_before_ms, token, disposition, failed_ms = at(runs, first)
        if kind in _UNFINISHED and not_before_ms > now_ms:
            outcome = OffsetOutcome.IN_DELIVERY if token else OffsetOutcome.WAITING, deliveries, 0.0, ""
        if kind is OffsetOutcome.ARCHIVING:
            outcome = kind, deliveries, failed_ms / 1000, DISPOSITION_NAMES.get(disposition, "")
        if outcome[0] in _WITHOUT_DISPOSITION and (entry := _at(failed, first)) is not None:
            outcome = entry[2:]
        if _within(first, log.for_others):
            outcome = OffsetOutcome.FOR_OTHERS, 0, 0.0, ""
        if found and found[-1][2:] == outcome:
            found[-1] = found[-1]._replace(last=after - 1)
        elif first < after:
            found.append(OutcomeRun(first, after - 1, *outcome))
    return found


def _outcome(
    offset: int, start: int, runs: Sequence[OffsetRun], gaps: Sequence[OffsetSpan], held: Sequence[OffsetSpan]
) -> tuple[OffsetOutcome, int]:
    if offset < start:
        return OffsetOutcome.PASSED, 0
    if _within(offset, gaps):
        return OffsetOutcome.GAP, 0
    state, deliveries, *_ = at(runs, offset)
    if state in _STORED:
        return _STORED[state], deliveries
    if _within(offset, held):
        return OffsetOutcome.IN_DELIVERY, deliveries
    return (OffsetOutcome.UNDECIDED if start < 0 else OffsetOutcome.AVAILABLE), deliveries


def _within(offset: int, spans: Sequence[OffsetSpan]) -> bool:
    return _at(spans, offset) is not None


def _at(spans: Sequence[_Span], offset: int) -> _Span | None:
    index = bisect_right(spans, offset, key=lambda span: span.first) - 1
    return spans[index] if index >= 0 and offset <= spans[index].last else None
