"""The newest batches of a partition, kept in memory so that consumers at the end never ask the store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from sharebroker_server.record_log.core.batch import StoredBatch


class HotTail:
    """All batches from `start` to `end`, at most `limit` bytes of them (the newest one always stays).

    Batches are found by bisection over their last offsets; evicted ones are cut off in bulk, so that
    adding stays constant time on average.
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
        """Put a batch after the others; its offsets must lie at `end` or above."""
        self._batches.append(batch)
        self._lasts.append(batch.last_offset)
        self.size += len(batch.data)
        self.end = batch.last_offset + 1
        while self.size > self.limit and self._head < len(self._batches) - 1:
            self._evict()
        self._compact()

    def read(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Whole batches from the one that contains or follows `offset`, `max_bytes` of them, at least one.

        None when that batch is no longer here; empty at the end.
        """
        if offset < self.start:
            return None
        first = bisect_left(self._lasts, offset, self._head)
        return take(self._batches, first, max_bytes)

    def batches(self) -> Iterator[StoredBatch]:
        """All batches, oldest first."""
        return islice(self._batches, self._head, None)

    def droppable_before(self, max_bytes: int) -> int:
        """End of the leading batches that `max_bytes` hold; `start` when not even one fits."""
        end, left = self.start, max_bytes
        for batch in self.batches():
            left -= len(batch.data)
            if left < 0:
                break
            end = batch.last_offset + 1
        return end

    def floor(self, offset: int) -> int:
        """The last batch boundary at or below `offset`, which must lie between `start` and `end`."""
        index = bisect_left(self._lasts, offset, self._head)
        if index == len(self._batches):
            return min(offset, self.end)
        return min(offset, self._batches[index].base_offset)

    def drop_before(self, offset: int) -> None:
        """Forget the batches that end below `offset`."""
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


def take(batches: list[StoredBatch], first: int, max_bytes: int) -> list[StoredBatch]:
    """Batches from index `first` on until the next would exceed `max_bytes`; at least one if there is one."""
    end, left = first, max_bytes
    for index in range(first, len(batches)):
        left -= len(batches[index].data)
        if left < 0 and index > first:
            break
        end = index + 1
    return batches[first:end]
