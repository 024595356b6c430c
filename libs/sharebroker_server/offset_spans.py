"""Runs of offsets laid over each other. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

Span = tuple[int, int]
"""First and last offset, inclusive."""


def parts(first: int, last: int, over: Sequence[Span]) -> Iterator[tuple[int, int, int | None]]:
    """Offsets first..last in order, cut where spans of `over` begin and end: first, last, and the index of
    the span they lie in, None for none. `over` ascends and does not overlap.
    """
    index = max(bisect_right(over, (first, last)) - 1, 0)
    while first <= last:
        while index < len(over) and over[index][1] < first:
            index += 1
        begin, end = over[index] if index < len(over) else (last + 1, last)
        if first < begin:
            yield first, min(begin - 1, last), None
        if begin <= last:
            yield max(first, begin), min(end, last), index
        first = end + 1
