"""What may go: by age, by size, and by consumption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharebroker_server.record_log.core.hot_cache import HotTail
from sharebroker_server.record_log.core.segments import Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a topic: `retention_ms` and `retention_bytes` as in Kafka (-1 for none).

    `consumed` is retention.policy=consumed: what every share group of the topic has finished may go as well.
    """

    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    consumed: bool = False


def expired_before(segments: Sequence[Segment], tail: HotTail, log_start: int, oldest_ms: int) -> int:
    """End of the leading segments, and where these reach the tail of its batches, older than `oldest_ms`."""
    end = log_start
    for segment in segments:
        if segment.max_timestamp >= oldest_ms:
            break
        end = segment.end_offset
    for batch in tail.batches() if end >= tail.start else ():
        if not 0 <= batch.max_timestamp < oldest_ms:  # one without a time is as old as its segment
            break
        end = max(end, batch.last_offset + 1)
    return end


def oversized_before(segments: Sequence[Segment], tail: HotTail, max_bytes: int) -> int:
    """The batch boundary behind which `max_bytes` still lie, and as little more as is known of.

    To the batch within the tail, to the segment before it; 0 when all is needed.
    """
    # Counted from the end: the first segment may be half gone.
    excess = tail.size - max_bytes
    if excess >= 0:
        return tail.droppable_before(excess)
    for segment in reversed(segments):
        if segment.end_offset <= tail.start:
            excess += segment.size
            if excess >= 0:
                return segment.base_offset
    return 0


def disposable_before(
    retention: Retention, segments: Sequence[Segment], tail: HotTail, log_start: int, now_ms: int
) -> int:
    """The offset below which age and size let everything go; never below `log_start`."""
    ends = [log_start]
    if retention.retention_ms >= 0:
        ends.append(expired_before(segments, tail, log_start, now_ms - retention.retention_ms))
    if retention.retention_bytes >= 0:
        ends.append(oversized_before(segments, tail, retention.retention_bytes))
    return max(ends)
