"""Trace contexts of records by partition and offset; a process keeps the newest ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

from sharebroker_protocol.tracing.context import TraceContext

MAX_RECORDS: Final = 10_000


class TracedRecordLimit:
    """Limits the traced records of all partitions: beyond `limit` the oldest are removed."""

    def __init__(self, limit: int = MAX_RECORDS) -> None:
        self._limit = limit
        self._order: deque[tuple[TracedOffsets, int]] = deque()

    def add(self, of: TracedOffsets, offset: int) -> None:
        """Counts one more record."""
        if len(self._order) >= self._limit:
            oldest, oldest_offset = self._order.popleft()
            oldest.forget(oldest_offset)
        self._order.append((of, offset))


class TracedOffsets:
    """Traced records of one partition. Records before `known_from` are included only if they were read."""

    __slots__ = ("_contexts", "_limit", "_offsets", "known_from")

    def __init__(self, limit: TracedRecordLimit, known_from: int) -> None:
        self._limit = limit
        self._contexts: dict[int, TraceContext] = {}
        self._offsets: list[int] = []
        self.known_from = known_from

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offset: int, context: TraceContext) -> bool:
        """Adds a record; returns False if it is present."""
        if offset in self._contexts:
            return False
        self._limit.add(self, offset)
        self._contexts[offset] = context
        insort(self._offsets, offset)
        return True

    def forget(self, offset: int) -> None:
        """Removes a record."""
        del self._contexts[offset]
        del self._offsets[bisect_left(self._offsets, offset)]

    def within(self, first: int, last: int) -> list[tuple[int, TraceContext]]:
        """Returns the records in first..last, in ascending order."""
        offsets, found = self._offsets, []
        for index in range(bisect_left(offsets, first), len(offsets)):
            offset = offsets[index]
            if offset > last:
                break
            found.append((offset, self._contexts[offset]))
        return found
