"""A log with a limited rate: a misbehaving client must not flood the log."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import structlog

_log = structlog.get_logger()

BURST: Final = 20
PER_SECOND: Final = 1.0


class RateLimitedLog:
    """Logs `BURST` lines in a row, then `PER_SECOND`; it counts further lines.

    `log_dropped` logs their number as `dropped_event`.
    """

    def __init__(self, dropped_event: str, now: Callable[[], float] = monotonic) -> None:
        self._dropped_event = dropped_event
        self._now = now
        self._available = float(BURST)
        self._refilled_at = now()
        self._dropped = 0

    def log(self, event: str, *, failed: BaseException | None = None, **fields: Any) -> None:
        """Logs one line: an error with the exception `failed`, else a warning."""
        if not self._acquire():
            self._dropped += 1
        elif failed is not None:
            _log.error(event, exc_info=failed, **fields)
        else:
            _log.warning(event, **fields)

    def log_dropped(self) -> None:
        """Logs the number of dropped lines; to be called regularly."""
        if self._dropped and self._acquire():
            _log.warning(self._dropped_event, lines=self._dropped)
            self._dropped = 0

    def _acquire(self) -> bool:
        now = self._now()
        self._available = min(self._available + (now - self._refilled_at) * PER_SECOND, BURST)
        self._refilled_at = now
        if self._available < 1:
            return False
        self._available -= 1
        return True
