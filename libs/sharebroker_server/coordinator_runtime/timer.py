"""A timer that is armed often and may fire too early, but never too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class EarliestTimer:
    """Calls `due` at the earliest time it was armed for since the last call.

    An early call finds nothing due and arms the timer again, which is cheaper than moving it each time.
    """

    __slots__ = ("_due", "_handle")

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at: float) -> None:
        """Arms the timer for `at` (loop time) unless it fires earlier already."""
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_at(at, self._fire)

    def cancel(self) -> None:
        """Disarms the timer. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._due()
