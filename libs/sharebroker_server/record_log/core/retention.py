"""Computes the offsets that retention by time, by size and by consumption permits to delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharebroker_server.record_log.core.hot_cache import HotCache
from sharebroker_server.record_log.core.segments import Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a topic: `retention_ms` and `retention_bytes` as in Kafka (-1 for none).

    `consumed` is retention.policy=consumed: records that every share group of the topic has finished may be
    deleted, too.
    """

    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    consumed: bool = False


def expired_before(segments: Sequence[Segment], hot_cache: HotCache, log_start: int, oldest_ms: int) -> int:
    """Returns the end of the first segments, and then of the first cached batches, older than `oldest_ms`."""
    end = log_start
    for segment in segments:
        if segment.max_timestamp >= oldest_ms:
            break
        end = segment.end_offset
    for batch in hot_cache.batches() if end >= hot_cache.start else ():
        if not 0 <= batch.max_timestamp < oldest_ms:  # a batch without a timestamp is as old as its segment
            break
        end = max(end, batch.last_offset + 1)
    return end


def oversized_before(segments: Sequence[Segment], hot_cache: HotCache, max_bytes: int) -> int:
    """Returns the last known batch boundary that leaves at least `max_bytes`.

    The result is exact to the batch within the hot cache and to the segment before it; 0 if all is needed.
    """
    # Count from the end: the first segment may be partly deleted.
    excess = hot_cache.size - max_bytes
    if excess >= 0:
        return hot_cache.droppable_before(excess)
    for segment in reversed(segments):
        if segment.end_offset <= hot_cache.start:
            excess += segment.size
            if excess >= 0:
                return segment.base_offset
    return 0


def disposable_before(
    retention: Retention, segments: Sequence[Segment], hot_cache: HotCache, log_start: int, now_ms: int
) -> int:
    """Returns the offset below which time and size permit deletion; never below `log_start`."""
    ends = [log_start]
    if retention.retention_ms >= 0:
        ends.append(expired_before(segments, hot_cache, log_start, now_ms - retention.retention_ms))
    if retention.retention_bytes >= 0:
        ends.append(oversized_before(segments, hot_cache, retention.retention_bytes))
    return max(ends)
