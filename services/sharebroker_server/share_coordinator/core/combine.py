"""Combines state batches into runs: disjoint, ascending, maximal (KIP-932, Kafka's state batch combiner).

Where batches overlap, the higher delivery count wins, then the higher state: not the newer one. So the
value of an offset is a maximum, and the order in which batches arrive is of no account.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from sharebroker_protocol.model import StateBatch


def combine(runs: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """`runs` and `added` (in any order, overlapping or not) as runs, nothing below `start_offset`.

    O((n + m) log m) steps for n runs and m batches added; -1 as start offset keeps everything.
    """
    combined = list(runs)
    fold(combined, added, start_offset)
    return combined


def fold(runs: list[StateBatch], added: Sequence[StateBatch], start_offset: int) -> None:
    """`combine` in place: costs what `added` touches, not what `runs` holds."""
    for batch in added if len(added) < 2 else _disjoint(added):
        _lay(runs, batch)
    prune(runs, start_offset)


def prune(runs: list[StateBatch], start_offset: int) -> None:
    """Drops what lies below `start_offset` and clips the run that straddles it."""
    below = count_below(runs, start_offset)
    if below:
        del runs[:below]
    if runs and runs[0][0] < start_offset:
        runs[0] = StateBatch(start_offset, *runs[0][1:])


def count_below(runs: Sequence[StateBatch], start_offset: int) -> int:
    """How many of the leading runs lie wholly below `start_offset`."""
    index = bisect_left(runs, (start_offset,))
    return index - 1 if index and runs[index - 1][1] >= start_offset else index


def _disjoint(batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """The batches as ascending disjoint ones, by halves, so that hostile overlaps cost no square."""
    if all(left[1] < right[0] for left, right in pairwise(batches)):
        return batches
    middle = len(batches) // 2
    runs: list[StateBatch] = []
    for half in (batches[:middle], batches[middle:]):
        for batch in _disjoint(half):
            _lay(runs, batch)
    return runs


def _lay(runs: list[StateBatch], batch: StateBatch) -> None:
    """Lays one batch over the runs it overlaps or touches."""
    if not runs or runs[-1][1] + 1 < batch[0]:
        runs.append(batch)
        return
    first, last = batch[0], batch[1]
    low = bisect_left(runs, (first,))
    if low and runs[low - 1][1] + 1 >= first:
        low -= 1
    high = bisect_left(runs, (last + 2,), low)
    runs[low:high] = _overlay(runs[low:high], batch)


def _overlay(window: list[StateBatch], batch: StateBatch) -> list[StateBatch]:
    """The window with the batch on top: left of it, holes filled, overlaps decided, right of it."""
    first, last, state, count = batch
    pieces: list[StateBatch] = []
    position = first
    for run in window:
        run_first, run_last, run_state, run_count = run
        if run_first < first:
            _push(pieces, run_first, min(run_last, first - 1), run_state, run_count)
        if position < run_first:
            _push(pieces, position, min(last, run_first - 1), state, count)
        low, high = max(run_first, first), min(run_last, last)
        if low <= high:
            wins = (count, state) > (run_count, run_state)
            _push(pieces, low, high, state if wins else run_state, count if wins else run_count)
        if run_last > last:
            _push(pieces, max(run_first, last + 1), run_last, run_state, run_count)
        position = max(position, run_last + 1)
    if position <= last:
        _push(pieces, position, last, state, count)
    return pieces


def _push(pieces: list[StateBatch], first: int, last: int, state: int, count: int) -> None:
    """Appends a piece, or lengthens the one before when it touches and is the same."""
    if pieces:
        before = pieces[-1]
        if before[1] + 1 == first and before[2] == state and before[3] == count:
            pieces[-1] = StateBatch(before[0], last, state, count)
            return
    pieces.append(StateBatch(first, last, state, count))
