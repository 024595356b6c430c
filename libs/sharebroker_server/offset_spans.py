"""Splits offset spans at the bounds of other spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

Span = tuple[int, int]
"""First and last offset, inclusive."""


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
