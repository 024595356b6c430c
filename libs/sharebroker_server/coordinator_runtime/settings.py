"""Bounds and intervals of the coordinator runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sharebroker_protocol.clock import now


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The settings of every shard of a process; times in seconds.

    * `queue_limit`: pending commands and records of a shard.
    * `group_records`, `group_bytes`: records of one append. `load_page`: records of one read during a load.
    * `trim_records`, `trim_interval`: the log is trimmed at the next append after either.
    * `backoff_first`, `backoff_most`: the pause before a failed load is retried, doubled up to the maximum.
    * `refusal_pause`: time without appends after the store rejected one; reads continue.
    * `drain_timeout`: time that closing waits for pending records.
    * `timer_floor`: the shortest timer. `clock`: seconds since the Unix epoch.
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
        """Returns the pause before the load that follows so many consecutive failures; none after
        the first.
        """
        if failures < 2:
            return 0.0
        return min(self.backoff_first * 2.0 ** min(failures - 2, 32), self.backoff_most)
