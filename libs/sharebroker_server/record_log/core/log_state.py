"""A leader's state of its partition's log, as far as it is in memory.

The hot cache has the newest batches, so that consumers at the end of the log need no store. Retention by time
and size and look-up by timestamp need sums and maxima over the whole log: a sparse index with one row per
megabyte provides them without reading a batch (Kafka: log segments and the time index).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
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
        """Returns whole batches from the one that contains or follows `offset`.

        Up to `max_bytes`, but at least one; [] at the end. Returns None if that batch was evicted.
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
    """Returns batches from index `first` until the next would exceed `max_bytes`.

    Returns at least one batch if there is one.
    """
    end, remaining = first, max_bytes
    for index in range(first, len(batches)):
        remaining -= len(batches[index].data)
        if remaining < 0 and index > first:
            break
        end = index + 1
    return batches[first:end]


class Segment(NamedTuple):
    """Consecutive batches: offsets [base_offset, end_offset), size in bytes, newest timestamp (ms)."""

    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int


class SegmentIndex:
    """Closed segments in order, and the open segment to which batches are added.

    A segment closes when it has `max_bytes` or spans `max_ms`. Closed segments remain in `unsaved` until the
    store has them. Segments lost from there are counted again when the log is opened.
    """

    __slots__ = ("_closed", "_max_bytes", "_max_ms", "_open", "_opened_ms", "unsaved")

    def __init__(self, closed: Iterable[Segment], max_bytes: int, max_ms: int) -> None:
        self._closed = list(closed)
        self._max_bytes = max_bytes
        self._max_ms = max_ms
        self._open: Segment | None = None
        self._opened_ms = 0
        self.unsaved: list[Segment] = []

    @property
    def closed_end(self) -> int:
        """The offset after the last closed segment; 0 without one."""
        return self._closed[-1].end_offset if self._closed else 0

    def segments(self) -> Sequence[Segment]:
        """Returns all segments in order, the open one last."""
        return self._closed if self._open is None else [*self._closed, self._open]

    @property
    def size(self) -> int:
        """The size of all segments in bytes.

        The first segment counts in full, including bytes below the log start.
        """
        return sum(segment.size for segment in self.segments())

    def add(self, batch: StoredBatch, now_ms: int) -> None:
        """Adds a batch; a batch without a timestamp gets `now_ms`.

        The timestamp of a transaction marker does not count.
        """
        time = batch.max_timestamp if batch.max_timestamp >= 0 else now_ms
        segment = self._open
        if segment is None:
            self._opened_ms = time
            segment = Segment(batch.base_offset, batch.base_offset, 0, -1)
        size = segment.size + len(batch.data)
        newest = segment.max_timestamp if batch.control else max(segment.max_timestamp, time)
        self._open = Segment(segment.base_offset, batch.last_offset + 1, size, newest)
        if size >= self._max_bytes or newest - self._opened_ms >= self._max_ms:
            self._close(self._open)

    def drop_before(self, offset: int) -> None:
        """Removes the segments that end at or below `offset`."""
        del self._closed[: self._below(offset)]
        self.saved(offset)
        if self._open is not None and self._open.end_offset <= offset:
            self._open = None

    def saved(self, offset: int) -> None:
        """Marks the closed segments up to `offset` as stored."""
        self.unsaved = [segment for segment in self.unsaved if segment.end_offset > offset]

    def floor(self, offset: int) -> int:
        """Returns the last end of a closed segment at or below `offset`; 0 without one."""
        below = self._below(offset)
        return self._closed[below - 1].end_offset if below else 0

    def first_since(self, timestamp: int) -> int | None:
        """Returns the base offset of the first segment with a record since `timestamp` (ms), or None."""
        for segment in self.segments():
            if segment.max_timestamp >= timestamp:
                return segment.base_offset
        return None

    def time_around(self, offset: int) -> int:
        """Returns the newest timestamp (ms) of the segment that contains `offset`, -1 without one."""
        segments = self.segments()
        index = bisect_right(segments, offset, key=lambda segment: segment.end_offset)
        return segments[index].max_timestamp if index < len(segments) else -1

    def newest(self) -> Segment | None:
        """Returns the first segment with the highest timestamp, None without one."""
        return max(self.segments(), key=lambda segment: segment.max_timestamp, default=None)

    def _below(self, offset: int) -> int:
        return bisect_right(self._closed, offset, key=lambda segment: segment.end_offset)

    def _close(self, segment: Segment) -> None:
        self._closed.append(segment)
        self.unsaved.append(segment)
        self._open = None


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits of the memory per partition: the hot cache, and the log range that one segment covers."""

    hot_cache_bytes: int = 4 << 20
    segment_bytes: int = 1 << 20
    segment_ms: int = 600_000


class LogState:
    """Bounds, hot cache and segment index of one partition, and the batches last read from the store.

    Only durable batches are added. When the log is opened, all batches between `unread_from` and the log end
    must be added, oldest first, and `hide_end` be called if the log ends with state of share groups.
    """

    __slots__ = (
        "_hidden_from",
        "_read_ahead",
        "has_share_state",
        "hot_cache",
        "index",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(
        self, log_start: int, log_end: int, segments: Iterable[Segment], limits: MemoryLimits
    ) -> None:
        self.log_start_offset = log_start
        self.log_end_offset = log_end
        self.index = SegmentIndex(segments, limits.segment_bytes, limits.segment_ms)
        self.hot_cache = HotCache(limits.hot_cache_bytes, self.unread_from)
        self._read_ahead = HotCache(limits.hot_cache_bytes, log_start)
        self._hidden_from: int | None = None
        self.has_share_state = False
        """Whether the log may have state of share groups, also of deleted ones, in memory or at its end."""

    @property
    def records_end_offset(self) -> int:
        """The offset after the last batch that readers receive: the high watermark.

        Batches with state of share groups may follow.
        """
        if self._hidden_from is None:
            return self.log_end_offset
        return max(self._hidden_from, self.log_start_offset)

    def hide_end(self, records_end: int) -> None:
        """Hides the last batches of the log from readers: those from `records_end` on."""
        self._hidden_from = records_end
        self.has_share_state = True

    @property
    def unread_from(self) -> int:
        """The offset of the first batch that no closed segment counts."""
        return max(self.index.closed_end, self.log_start_offset)

    def add(self, batch: StoredBatch, now_ms: int) -> None:
        """Adds a durable batch at the end."""
        self.hot_cache.add(batch)
        self.index.add(batch, now_ms)
        if not batch.has_share_state:
            self._hidden_from = None
        else:
            self.has_share_state = True
            if self._hidden_from is None:
                self._hidden_from = batch.base_offset
        self.log_end_offset = max(self.log_end_offset, batch.last_offset + 1)

    def read_hot(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Returns batches from the one that contains `offset`; [] at the log end.

        Returns None if the store must be read.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE below the log start or above the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self.out_of_range(offset)
        hot = self.hot_cache.read(offset, max_bytes)
        if hot is None and self._read_ahead.start <= offset < self._read_ahead.end:
            self._read_ahead.drop_before(offset)
            return self._read_ahead.read(offset, max_bytes)
        return hot

    def time_of(self, offset: int) -> int:
        """Returns the newest timestamp (ms) of the batch or segment that contains `offset`; -1 if unknown."""
        hot = self.hot_cache.read(offset, 0)
        return hot[0].max_timestamp if hot else self.index.time_around(offset)

    def cache_read(self, batches: Sequence[StoredBatch]) -> None:
        """Caches batches read from the store: a consumer that catches up needs the following ones next."""
        if batches:
            self._read_ahead = HotCache(sum(len(batch.data) for batch in batches), batches[0].base_offset)
            for batch in batches:
                self._read_ahead.add(batch)
                self.has_share_state = self.has_share_state or batch.has_share_state

    def deletable_before(self, before: int) -> int:
        """Returns the log start for a request to delete records below `before` (-1: all records).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        before = self.log_end_offset if before == -1 else before
        if not 0 <= before <= self.log_end_offset:
            raise self.out_of_range(before)
        return max(before, self.log_start_offset)

    def move_log_start(self, offset: int) -> None:
        """Moves the log start up to `offset` and removes what is below; the log start never moves back."""
        self.log_start_offset = max(offset, self.log_start_offset)
        self.hot_cache.drop_before(offset)
        self._read_ahead.drop_before(offset)
        self.index.drop_before(offset)

    def out_of_range(self, offset: int) -> KafkaError:
        """Returns the error for an offset outside this log."""
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} is outside [{self.log_start_offset}, {self.log_end_offset}].",
            metadata={
                "log_start_offset": str(self.log_start_offset),
                "log_end_offset": str(self.log_end_offset),
            },
        )

    def floor(self, offset: int) -> int:
        """Returns the last known batch boundary at or below `offset`."""
        return self.hot_cache.floor(offset) if offset >= self.hot_cache.start else self.index.floor(offset)
