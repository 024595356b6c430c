"""A sparse index of a partition's log: size and newest timestamp per segment.

Retention by time and size and look-up by timestamp need sums and maxima over the whole log. One row per
megabyte provides them without reading a batch (Kafka: log segments and the time index).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharebroker_server.record_log.core.batch import StoredBatch


@dataclass(frozen=True, slots=True)
class Segment:
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
        """The size of all segments in bytes; the first segment counts in full, including bytes below the log
        start.
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
        """Returns the base offset of the first segment with a record at or after `timestamp`
        (ms), or None.
        """
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
