"""What a log says of leases that cannot be kept: that it began, that it lasts, that it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

_log = structlog.get_logger()

QUIET: Final = 60.0
"""Seconds between two lines while it lasts, and between two beginnings that are told."""

_NAMED: Final = 3


class Outage:
    """One a process; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._told = False
        self._next = clock()

    def failed(self, reason: Exception) -> None:
        """The store did not answer."""
        now = self._clock()
        if self._since is None:
            self._since, self._told = now, False
        if now >= self._next:
            self._next, self._told = now + QUIET, True
            seconds = round(now - self._since, 1)
            _log.warning("leases cannot be renewed", reason=str(reason), seconds=seconds)

    def ended(self) -> None:
        """The store answers; tells so where its silence was told."""
        if self._since is not None and self._told:
            seconds = round(self._clock() - self._since, 1)
            _log.warning("leases can be renewed again", seconds=seconds)
        self._since = None


def tell_expired(resources: Sequence[str]) -> None:
    """Which leases, if any, have run out now."""
    if resources:
        names = sorted(resources)[:_NAMED]
        _log.warning("leases ran out before they could be renewed", leases=len(resources), some=names)
