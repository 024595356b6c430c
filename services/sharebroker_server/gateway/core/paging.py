"""Pages of partitions: a limited number, and the position of the next page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class PagePosition(NamedTuple):
    """A topic name and a partition number."""

    topic: str
    partition: int


def page(
    topics: Iterable[tuple[str, int]], start: PagePosition, limit: int
) -> tuple[list[tuple[str, range]], PagePosition | None]:
    """Up to `limit` partitions from `start` on, by topic, and the next position; None at the end.

    `topics` are the names from that of `start` on, with their numbers of partitions. A topic without
    partitions is listed too.
    """
    found: list[tuple[str, range]] = []
    for name, partitions in topics:
        if limit == 0:
            return found, PagePosition(name, 0)
        first = start.partition if name == start.topic else 0
        taken = range(first, min(first + limit, partitions))
        found.append((name, taken))
        if taken.stop < partitions:
            return found, PagePosition(name, taken.stop)
        limit -= len(taken)
    return found, None
