"""States of logs for the tests of rules about them."""

from __future__ import annotations

from sharebroker_server.record_log.core.log_state import LogState, MemoryLimits, Segment
from tests.unit.record_log.batches import stored

SIZE = len(stored(0).data)

SEGMENTS = [
    Segment(0, 10, 100, 1_000),
    Segment(10, 20, 100, 3_000),
    Segment(20, 30, 100, 2_000),
    Segment(30, 40, 100, 4_000),
]


def view(batches: int = 4, *, tail_batches: int = 2, segment_batches: int = 2) -> LogState:
    """A log of batches of three records from 0 on; by default the last two are hot and two make a segment."""
    log = LogState(0, 0, (), MemoryLimits(tail_batches * SIZE, segment_batches * SIZE))
    for i in range(batches):
        log.add(stored(3 * i, time=1000 * i), now_ms=0)
    return log
