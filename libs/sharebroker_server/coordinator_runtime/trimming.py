"""Decides when and up to where the log of a shard is trimmed."""

from __future__ import annotations

from typing import Any

from sharebroker_server.coordinator_runtime.machine import Machine
from sharebroker_server.coordinator_runtime.pending import Pending
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings


class Trimming:
    """Schedules the trims of one shard: after `trim_records` records or `trim_interval` seconds (loop time).

    `before` is the position below which the log is trimmed.
    """

    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        self.before = 1
        self._trimmed = 0
        self._at = 0.0
        self._plan: tuple[int, int] | None = None

    def loaded(self, trimmed: int, now: float) -> None:
        """Records that the log was read and starts after position `trimmed`."""
        self._trimmed, self._at = trimmed, now + self._settings.trim_interval
        self.before = trimmed + 1

    def forget(self) -> None:
        """Drops the plan: pending records were discarded, so its position may never become durable."""
        self._plan = None

    def due(self, machine: Machine[Any, Any, Any], pending: Pending, now: float) -> int | None:
        """Returns the position before which the log can be trimmed now; None if no trim is due."""
        if self._plan is None:
            if pending.durable - self._trimmed < self._settings.trim_records and now < self._at:
                return None
            self._plan = machine.trim_before(), pending.applied
        # A record is redundant only once the record that replaced it is durable.
        before, applied = self._plan
        if pending.durable < applied:
            return None
        self._plan, self._trimmed, self._at = None, pending.durable, now + self._settings.trim_interval
        return before
