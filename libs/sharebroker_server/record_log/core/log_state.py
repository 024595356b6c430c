"""What a leader knows of its partition's log without asking the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.hot_cache import HotTail
from sharebroker_server.record_log.core.retention import Retention, disposable_before
from sharebroker_server.record_log.core.segments import Segment, SegmentIndex


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of what is kept in memory: the hot tail, and the stretch of log that one index row covers."""

    tail_bytes: int = 4 << 20
    segment_bytes: int = 1 << 20
    segment_ms: int = 600_000


class LogView:
    """Bounds, hot tail and segment index of one partition, and the stretch that was last read from the store.

    `log_end_offset` is the high watermark: only durable batches are added. All of them between
    `unread_from` and the log end must be added when the log is opened, oldest first.
    """

    __slots__ = ("_ahead", "index", "log_end_offset", "log_start_offset", "tail")

    def __init__(self, log_start: int, log_end: int, segments: Iterable[Segment], limits: Limits) -> None:
        self.log_start_offset = log_start
        self.log_end_offset = log_end
        self.index = SegmentIndex(segments, limits.segment_bytes, limits.segment_ms)
        self.tail = HotTail(limits.tail_bytes, self.unread_from)
        self._ahead = HotTail(limits.tail_bytes, log_start)

    @property
    def unread_from(self) -> int:
        """Where the batches that no closed segment counts begin."""
        return max(self.index.closed_end, self.log_start_offset)

    def add(self, batch: StoredBatch, now_ms: int) -> None:
        """Take in a durable batch at the end."""
        self.tail.add(batch)
        self.index.add(batch, now_ms)
        self.log_end_offset = max(self.log_end_offset, batch.last_offset + 1)

    def read_hot(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Batches from the one that contains `offset`, [] at the log end, None when the store must be asked.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE below the log start or above the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self.out_of_range(offset)
        hot = self.tail.read(offset, max_bytes)
        if hot is None and self._ahead.start <= offset < self._ahead.end:
            self._ahead.drop_before(offset)
            return self._ahead.read(offset, max_bytes)
        return hot

    def time_of(self, offset: int) -> int:
        """Newest time (ms) of the batch that holds `offset`, or of the stretch around it; -1: not known."""
        hot = self.tail.read(offset, 0)
        return hot[0].max_timestamp if hot else self.index.time_around(offset)

    def keep(self, batches: Sequence[StoredBatch]) -> None:
        """Remember what was read from the store: whoever works off a backlog needs the rest of it next."""
        if batches:
            self._ahead = HotTail(sum(len(batch.data) for batch in batches), batches[0].base_offset)
            for batch in batches:
                self._ahead.add(batch)

    def disposable_before(self, retention: Retention, now_ms: int, consumed_up_to: int | None) -> int:
        """The log start that `retention` asks for: a batch boundary, never moving back, never past the end.

        `consumed_up_to` is the lowest start offset (SPSO) of the topic's share groups, None without groups.
        """
        before = disposable_before(retention, self.index.segments(), self.tail, self.log_start_offset, now_ms)
        if retention.consumed and consumed_up_to is not None:
            before = max(before, self._floor(min(consumed_up_to, self.log_end_offset)))
        return min(before, self.log_end_offset)

    def deletable_before(self, before: int) -> int:
        """The log start that a request to delete records below `before` (-1: all there are) asks for.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        before = self.log_end_offset if before == -1 else before
        if not 0 <= before <= self.log_end_offset:
            raise self.out_of_range(before)
        return max(before, self.log_start_offset)

    def move_log_start(self, offset: int) -> None:
        """Forget what lies below `offset`; the log start never moves back."""
        self.log_start_offset = max(offset, self.log_start_offset)
        self.tail.drop_before(offset)
        self._ahead.drop_before(offset)
        self.index.drop_before(offset)

    def out_of_range(self, offset: int) -> KafkaError:
        """The refusal of an offset that is not in this log."""
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} is outside [{self.log_start_offset}, {self.log_end_offset}].",
            metadata={
                "log_start_offset": str(self.log_start_offset),
                "log_end_offset": str(self.log_end_offset),
            },
        )

    def _floor(self, offset: int) -> int:
        """The last known batch boundary at or below `offset`."""
        return self.tail.floor(offset) if offset >= self.tail.start else self.index.floor(offset)
