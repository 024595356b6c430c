"""Replay of state batches, and comparison of two states.

Replay follows KIP-932's rule: of all states written for an offset, the one with more deliveries wins, then
the higher state. The share coordinator applies its log record by record instead; verification compares both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple


class Run(NamedTuple):
    """Offsets (last inclusive) in one state: 0 available, 2 acknowledged, 3 archiving, 4 archived."""

    first: int
    last: int
    state: int
    deliveries: int


class Span(NamedTuple):
    """A range of offsets, last inclusive."""

    first: int
    last: int


UNTOUCHED: Final = (0, 0)
"""State and deliveries of an offset without a written state."""


def replay(written: Iterable[Run], start: int) -> list[Run]:
    """Returns the replayed state from `start` on: ascending, disjoint, maximal runs. O(n log n)."""
    waiting = sorted(run for run in written if max(run.first, start) <= run.last)
    edges = sorted({edge for run in waiting for edge in (max(run.first, start), run.last + 1)})
    known: list[Run] = []
    open_runs: list[tuple[int, int, int]] = []  # greatest first
    begun = 0
    for first, after in pairwise(edges):
        while begun < len(waiting) and waiting[begun].first <= first:
            run = waiting[begun]
            heappush(open_runs, (-run.deliveries, -run.state, run.last))
            begun += 1
        while open_runs and open_runs[0][2] < first:
            heappop(open_runs)
        if open_runs:
            deliveries, state, _ = open_runs[0]
            _add(known, Run(first, after - 1, -state, -deliveries))
    return known


def differences(left: Sequence[Run], right: Sequence[Run]) -> Iterator[Span]:
    """Yields the spans in which two states (ascending, disjoint runs) differ."""
    for first, after in pairwise(sorted({edge for run in (*left, *right) for edge in (run[0], run[1] + 1)})):
        if at(left, first) != at(right, first):
            yield Span(first, after - 1)


def at(runs: Sequence[Run], offset: int) -> tuple[int, int]:
    """Returns state and deliveries of an offset in ascending, disjoint runs."""
    index = bisect_right(runs, offset, key=lambda run: run.first) - 1
    if index < 0 or runs[index].last < offset:
        return UNTOUCHED
    return runs[index].state, runs[index].deliveries


def _add(known: list[Run], run: Run) -> None:
    """Appends a run, or extends the last one if it continues it."""
    before = known[-1] if known else None
    if before and before.last + 1 == run.first and before[2:] == run[2:]:
        known[-1] = before._replace(last=run.last)
    else:
        known.append(run)
