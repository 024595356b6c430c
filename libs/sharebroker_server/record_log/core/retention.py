"""Which records retention deletes: those beyond the limits of a topic on age and size, or consumed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharebroker_server.record_log.core.log_state import HotCache, LogState, Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a topic: `retention_ms` and `retention_bytes` as in Kafka (-1 for none).

    `consumed` is retention.policy=consumed: records that every share group of the topic has finished may be
    deleted, too, if they are older than `keep_ms`. Message ids are read from the younger ones.
    """

    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    consumed: bool = False
    keep_ms: int = 0


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


def disposable_before(log: LogState, retention: Retention, now_ms: int, consumed_up_to: int | None) -> int:
    """Returns the log start that `retention` permits: a batch boundary that never moves back.

    `consumed_up_to` is the lowest start offset (SPSO) of the topic's share groups, None without groups.
    """
    segments, ends = log.index.segments(), [log.log_start_offset]
    if retention.retention_ms >= 0:
        oldest_ms = now_ms - retention.retention_ms
        ends.append(expired_before(segments, log.hot_cache, log.log_start_offset, oldest_ms))
    if retention.retention_bytes >= 0:
        ends.append(oversized_before(segments, log.hot_cache, retention.retention_bytes))
    if retention.consumed and consumed_up_to is not None:
        end = log.floor(min(consumed_up_to, log.log_end_offset))
        if retention.keep_ms:
            kept_ms = now_ms - retention.keep_ms
            end = min(end, expired_before(segments, log.hot_cache, log.log_start_offset, kept_ms))
        ends.append(end)
    return min(max(ends), log.log_end_offset)
