"""The newest batches of a partition in memory, so that consumers at the end of the log need no store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from sharebroker_server.record_log.core.batch import StoredBatch


class HotCache:
    """All batches from `start` to `end`, at most `limit` bytes (the newest batch always remains).

    Batches are found by bisection on their last offsets. Evicted batches are removed from the list in bulk,
    so that adding takes constant time on average.
    """

    __slots__ = ("_batches", "_head", "_lasts", "end", "limit", "size", "start")

    def __init__(self, limit: int, offset: int) -> None:
        self.limit = limit
        self.start = offset
        self.end = offset
        self.size = 0
        self._batches: list[StoredBatch] = []
        self._lasts: list[int] = []
        self._head = 0

    def add(self, batch: StoredBatch) -> None:
        """Adds a batch; its offsets must be at `end` or above."""
        self._batches.append(batch)
        self._lasts.append(batch.last_offset)
        self.size += len(batch.data)
        self.end = batch.last_offset + 1
        while self.size > self.limit and self._head < len(self._batches) - 1:
            self._evict()
        self._compact()

    def read(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Returns whole batches from the one that contains or follows `offset`: up to `max_bytes`, at least
        one.

        Returns None if that batch was evicted, and an empty list at the end.
        """
        if offset < self.start:
            return None
        first = bisect_left(self._lasts, offset, self._head)
        return select_batches(self._batches, first, max_bytes)

    def batches(self) -> Iterator[StoredBatch]:
        """Iterates over all batches, oldest first."""
        return islice(self._batches, self._head, None)

    def droppable_before(self, max_bytes: int) -> int:
        """Returns the end of the first batches that fit into `max_bytes`; `start` if none fits."""
        end, remaining = self.start, max_bytes
        for batch in self.batches():
            remaining -= len(batch.data)
            if remaining < 0:
                break
            end = batch.last_offset + 1
        return end

    def floor(self, offset: int) -> int:
        """Returns the last batch boundary at or below `offset`, which must be between `start` and `end`."""
        index = bisect_left(self._lasts, offset, self._head)
        if index == len(self._batches):
            return min(offset, self.end)
        return min(offset, self._batches[index].base_offset)

    def drop_before(self, offset: int) -> None:
        """Removes the batches that end below `offset`."""
        while self._head < len(self._batches) and self._lasts[self._head] < offset:
            self._evict()
        self._compact()

    def _evict(self) -> None:
        batch = self._batches[self._head]
        self.size -= len(batch.data)
        self.start = batch.last_offset + 1
        self._head += 1

    def _compact(self) -> None:
        if self._head * 2 > len(self._batches):
            del self._batches[: self._head]
            del self._lasts[: self._head]
            self._head = 0


def select_batches(batches: list[StoredBatch], first: int, max_bytes: int) -> list[StoredBatch]:
    """Returns batches from index `first` until the next would exceed `max_bytes`; at least one if there is
    one.
    """
    end, remaining = first, max_bytes
    for index in range(first, len(batches)):
        remaining -= len(batches[index].data)
        if remaining < 0 and index > first:
            break
        end = index + 1
    return batches[first:end]
