"""What may go: by age, by size, and by consumption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.record_log.core.segments import Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a topic: `retention_ms` and `retention_bytes` as in Kafka (-1 for none).

    `consumed` is retention.policy=consumed: what every share group of the topic has finished may go as well.
    """

    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    consumed: bool = False


def expired_before(segments: Sequence[Segment], oldest_ms: int) -> int:
    """End of the leading segments whose newest record is older than `oldest_ms`; 0 when there is none."""
    end = 0
    for segment in segments:
        if segment.max_timestamp >= oldest_ms:
            break
        end = segment.end_offset
    return end


def oversized_before(segments: Sequence[Segment], max_bytes: int) -> int:
    """End of the leading segments without which `max_bytes` are still there; 0 when there is none."""
    end = 0
    excess = sum(segment.size for segment in segments) - max_bytes
    for segment in segments:
        excess -= segment.size
        if excess < 0:
            break
        end = segment.end_offset
    return end


def disposable_before(retention: Retention, segments: Sequence[Segment], now_ms: int, consumed: int) -> int:
    """The offset below which `retention` lets everything go.

    `consumed` is the batch boundary below which every share group has finished, 0 when no group has.
    """
    ends = [0]
    if retention.retention_ms >= 0:
        ends.append(expired_before(segments, now_ms - retention.retention_ms))
    if retention.retention_bytes >= 0:
        ends.append(oversized_before(segments, retention.retention_bytes))
    if retention.consumed:
        ends.append(consumed)
    return max(ends)
