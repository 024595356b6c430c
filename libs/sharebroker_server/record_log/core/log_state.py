"""The leader's state of its partition's log, as far as it is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.hot_cache import HotCache
from sharebroker_server.record_log.core.retention import Retention, disposable_before
from sharebroker_server.record_log.core.segments import Segment, SegmentIndex


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the memory per partition: the hot cache, and the log range that one segment covers."""

    hot_cache_bytes: int = 4 << 20
    segment_bytes: int = 1 << 20
    segment_ms: int = 600_000


class LogState:
    """Bounds, hot cache and segment index of one partition, and the batches last read from the store.

    `log_end_offset` is the high watermark: only durable batches are added. When the log is opened, all
    batches between `unread_from` and the log end must be added, oldest first.
    """

    __slots__ = ("_read_ahead", "hot_cache", "index", "log_end_offset", "log_start_offset")

    def __init__(self, log_start: int, log_end: int, segments: Iterable[Segment], limits: Limits) -> None:
        self.log_start_offset = log_start
        self.log_end_offset = log_end
        self.index = SegmentIndex(segments, limits.segment_bytes, limits.segment_ms)
        self.hot_cache = HotCache(limits.hot_cache_bytes, self.unread_from)
        self._read_ahead = HotCache(limits.hot_cache_bytes, log_start)

    @property
    def unread_from(self) -> int:
        """The offset of the first batch that no closed segment counts."""
        return max(self.index.closed_end, self.log_start_offset)

    def add(self, batch: StoredBatch, now_ms: int) -> None:
        """Adds a durable batch at the end."""
        self.hot_cache.add(batch)
        self.index.add(batch, now_ms)
        self.log_end_offset = max(self.log_end_offset, batch.last_offset + 1)

    def read_hot(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Returns batches from the one that contains `offset`, [] at the log end, None if the store must be
        read.

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

    def disposable_before(self, retention: Retention, now_ms: int, consumed_up_to: int | None) -> int:
        """Returns the log start that `retention` permits: a batch boundary that never moves back.

        `consumed_up_to` is the lowest start offset (SPSO) of the topic's share groups, None without groups.
        """
        before = disposable_before(
            retention, self.index.segments(), self.hot_cache, self.log_start_offset, now_ms
        )
        if retention.consumed and consumed_up_to is not None:
            before = max(before, self._floor(min(consumed_up_to, self.log_end_offset)))
        return min(before, self.log_end_offset)

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

    def _floor(self, offset: int) -> int:
        """Returns the last known batch boundary at or below `offset`."""
        return self.hot_cache.floor(offset) if offset >= self.hot_cache.start else self.index.floor(offset)
