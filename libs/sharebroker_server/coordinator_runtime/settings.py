"""Bounds and intervals of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sharebroker_protocol.clock import now


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The same for every shard of a process; times in seconds.

    `queue_limit` bounds the commands and records that wait for the log, `group_records` and `group_bytes`
    what one append carries, `load_page` what one read of the log brings. After `trim_records` more records
    or `trim_interval` the log is trimmed, at the next write. A load that failed is tried again after
    `backoff_first`, doubled up to `backoff_most`. A log that refused to grow is spared for `refusal_pause`:
    commands that would write are refused, others go on. Closing waits `drain_timeout` for what is under way.
    No timer is set closer than `timer_floor`. `clock` gives seconds since the Unix epoch.
    """

    queue_limit: int = 20_000
    group_records: int = 2_000
    group_bytes: int = 4 * 1024 * 1024
    load_page: int = 1_000
    trim_records: int = 1_000
    trim_interval: float = 300.0
    backoff_first: float = 0.05
    backoff_most: float = 1.0
    refusal_pause: float = 0.5
    drain_timeout: float = 5.0
    timer_floor: float = 0.01
    clock: Callable[[], float] = now

    def backoff(self, failures: int) -> float:
        """How long to wait before the load after so many failures in a row; the first costs nothing."""
        if failures < 2:
            return 0.0
        return min(self.backoff_first * 2.0 ** min(failures - 2, 32), self.backoff_most)
