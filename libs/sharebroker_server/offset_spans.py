"""Joins, intersects and splits offset spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]
"""First and last offset, inclusive."""


def joined(spans: Iterable[Span]) -> list[Span]:
    """Returns ascending spans, which may overlap, with neighbours joined."""
    found: list[Span] = []
    for first, last in spans:
        if found and first <= found[-1][1] + 1:
            first, end = found.pop()
            last = max(last, end)
        found.append((first, last))
    return found


def intersection(left: Sequence[Span], right: Sequence[Span]) -> Iterator[Span]:
    """Yields the spans of the offsets that both have; each is ascending and disjoint."""
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            yield first, last
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1


def split_by_spans(first: int, last: int, over: Sequence[Span]) -> Iterator[tuple[int, int, int | None]]:
    """Yields the parts of first..last in order, split at the bounds of the spans in `over`.

    Each part is (first, last, index of the span that contains it, or None). `over` must be ascending and
    disjoint.
    """
    index = max(bisect_right(over, (first, last)) - 1, 0)
    while first <= last:
        while index < len(over) and over[index][1] < first:
            index += 1
        start, end = over[index] if index < len(over) else (last + 1, last)
        if first < start:
            yield first, min(start - 1, last), None
        if start <= last:
            yield max(first, start), min(end, last), index
        first = end + 1
