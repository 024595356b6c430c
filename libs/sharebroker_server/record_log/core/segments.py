"""A sparse index of a partition's log: size and newest time of stretches of batches.

Retention by time and size and look-ups by timestamp need sums and maxima over the whole log; one row for
each megabyte or so gives them without reading any batch (Kafka: segments and the time index).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharebroker_server.record_log.core.batch import StoredBatch


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive batches: offsets [base_offset, end_offset), their bytes, their newest time (ms)."""

    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int


class SegmentIndex:
    """Closed segments in order, and the open one that batches are counted into.

    A segment closes when it holds `max_bytes` or spans `max_ms`. Closed ones stay in `unsaved` until the
    store has them; what is lost from there is counted again from the batches when the log is opened.
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
        """The offset behind the last closed segment; 0 when there is none."""
        return self._closed[-1].end_offset if self._closed else 0

    def segments(self) -> Sequence[Segment]:
        """All segments in order, the open one last."""
        return self._closed if self._open is None else [*self._closed, self._open]

    @property
    def size(self) -> int:
        """Bytes of all segments; of the first also those below the log start."""
        return sum(segment.size for segment in self.segments())

    def add(self, batch: StoredBatch, now_ms: int) -> None:
        """Count a batch in; one without a timestamp is as old as `now_ms` says.

        When a marker was written is nobody's time.
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
        """Forget the segments that lie below `offset` as a whole."""
        del self._closed[: self._below(offset)]
        self.saved(offset)
        if self._open is not None and self._open.end_offset <= offset:
            self._open = None

    def saved(self, offset: int) -> None:
        """Note that the store has the closed segments up to `offset`."""
        self.unsaved = [segment for segment in self.unsaved if segment.end_offset > offset]

    def floor(self, offset: int) -> int:
        """The last end of a closed segment at or below `offset`; 0 when there is none."""
        below = self._below(offset)
        return self._closed[below - 1].end_offset if below else 0

    def first_since(self, timestamp: int) -> int | None:
        """Base offset of the first segment with a record at or after `timestamp` (ms), or None."""
        for segment in self.segments():
            if segment.max_timestamp >= timestamp:
                return segment.base_offset
        return None

    def time_around(self, offset: int) -> int:
        """Newest time (ms) of the segment that holds `offset`, -1 where none does."""
        segments = self.segments()
        index = bisect_right(segments, offset, key=lambda segment: segment.end_offset)
        return segments[index].max_timestamp if index < len(segments) else -1

    def newest(self) -> Segment | None:
        """The first segment with the highest time, None when there is none."""
        return max(self.segments(), key=lambda segment: segment.max_timestamp, default=None)

    def _below(self, offset: int) -> int:
        return bisect_right(self._closed, offset, key=lambda segment: segment.end_offset)

    def _close(self, segment: Segment) -> None:
        self._closed.append(segment)
        self.unsaved.append(segment)
        self._open = None
