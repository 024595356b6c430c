"""A timer that is set again and again, and need only not come too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class EarliestTimer:
    """Calls `due` at the earliest time it was set to since it last did.

    A call that comes too early finds nothing due and sets the timer again: cheaper than moving it each time.
    """

    __slots__ = ("_due", "_handle")

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at: float) -> None:
        """Have it called at `at` (loop time), or before."""
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_at(at, self._fire)

    def cancel(self) -> None:
        """Not called any more, until it is set again. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._due()
