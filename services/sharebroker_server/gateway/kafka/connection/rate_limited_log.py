"""Log lines about clients that misbehave: one each, but never a flood of them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import structlog

_log = structlog.get_logger()

AT_ONCE: Final = 20
A_SECOND: Final = 1.0


class Complaints:
    """`AT_ONCE` lines in a row, then `A_SECOND`; how many were left out is told once there is room again."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._room = float(AT_ONCE)
        self._counted_at = now()
        self._left_out = 0

    def tell(self, event: str, *, failed: BaseException | None = None, **facts: Any) -> None:
        """One line, an error where something failed here, else a warning."""
        if not self._has_room():
            self._left_out += 1
        elif failed is not None:
            _log.error(event, exc_info=failed, **facts)
        else:
            _log.warning(event, **facts)

    def tell_left_out(self) -> None:
        """Make up for lines that were left out; to be called now and then."""
        if self._left_out and self._has_room():
            _log.warning("lines about Kafka clients were left out", lines=self._left_out)
            self._left_out = 0

    def _has_room(self) -> bool:
        now = self._now()
        self._room = min(self._room + (now - self._counted_at) * A_SECOND, AT_ONCE)
        self._counted_at = now
        if self._room < 1:
            return False
        self._room -= 1
        return True
