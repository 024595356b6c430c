"""When a shard's log is trimmed, and how far."""

from __future__ import annotations

from typing import Any

from sharebroker_server.coordinator_runtime.machine import Machine
from sharebroker_server.coordinator_runtime.pending import Pending
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings


class Trimming:
    """Of one shard; after so many records or seconds, whichever is first. Times are the loop's.

    The log has nothing any more at positions below `before`.
    """

    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        self.before = 1
        self._trimmed = 0
        self._at = 0.0
        self._plan: tuple[int, int] | None = None

    def loaded(self, trimmed: int, now: float) -> None:
        """The log was read; it begins behind the position `trimmed`."""
        self._trimmed, self._at = trimmed, now + self._settings.trim_interval
        self.before = trimmed + 1

    def forget(self) -> None:
        """What was applied will not all become durable."""
        self._plan = None

    def due(self, machine: Machine[Any, Any, Any], pending: Pending, now: float) -> int | None:
        """The position before which nothing is needed any more, if it is time to trim."""
        if self._plan is None:
            if pending.durable - self._trimmed < self._settings.trim_records and now < self._at:
                return None
            self._plan = machine.trim_before(), pending.applied
        # what the machine calls redundant is so only once all it had applied by then is durable
        before, applied = self._plan
        if pending.durable < applied:
            return None
        self._plan, self._trimmed, self._at = None, pending.durable, now + self._settings.trim_interval
        return before
