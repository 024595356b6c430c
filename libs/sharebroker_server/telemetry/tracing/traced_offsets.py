"""The traced records of partitions by offset, the newest so many of a process."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

from sharebroker_protocol.tracing.context import TraceContext

MOST: Final = 10_000


class Remembered:
    """How many there are, of all partitions: beyond `most` the oldest are forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._order: deque[tuple[TracedOffsets, int]] = deque()

    def add(self, of: TracedOffsets, offset: int) -> None:
        """One more."""
        if len(self._order) >= self._most:
            oldest, its = self._order.popleft()
            oldest.forget(its)
        self._order.append((of, offset))


class TracedOffsets:
    """Of one partition. What lies before `known_from` has been looked at only as far as it was read."""

    __slots__ = ("_contexts", "_offsets", "_remembered", "known_from")

    def __init__(self, remembered: Remembered, known_from: int) -> None:
        self._remembered = remembered
        self._contexts: dict[int, TraceContext] = {}
        self._offsets: list[int] = []
        self.known_from = known_from

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offset: int, context: TraceContext) -> bool:
        """Remember a record; False for one that is known."""
        if offset in self._contexts:
            return False
        self._remembered.add(self, offset)
        self._contexts[offset] = context
        insort(self._offsets, offset)
        return True

    def forget(self, offset: int) -> None:
        """Not any more."""
        del self._contexts[offset]
        del self._offsets[bisect_left(self._offsets, offset)]

    def within(self, first: int, last: int) -> list[tuple[int, TraceContext]]:
        """Those in first..last, ascending."""
        offsets, found = self._offsets, []
        for index in range(bisect_left(offsets, first), len(offsets)):
            offset = offsets[index]
            if offset > last:
                break
            found.append((offset, self._contexts[offset]))
        return found
