"""A timer wheel with coarse ticks: it ends many waits together, so that the process wakes less often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Final

TICK: Final = 0.02
"""Seconds of a tick: a wait may last that much longer than requested."""


class CoarseTimer:
    """Calls back at the end of the tick in which a wait ends."""

    __slots__ = ("_due", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, set[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def call_at(self, when: float, callback: Callable[[], None]) -> int:
        """Schedules a call at `when`, in seconds of the loop's clock. Returns the tick, for `cancel`."""
        tick = ceil(when / TICK)
        callbacks = self._due.get(tick)
        if callbacks is None:
            callbacks = self._due[tick] = set()
            self._loop.call_at(tick * TICK, self._end, tick)
        callbacks.add(callback)
        return tick

    def cancel(self, tick: int, callback: Callable[[], None]) -> None:
        """Cancels a call; does nothing after its tick."""
        self._due.get(tick, set()).discard(callback)

    def _end(self, tick: int) -> None:
        callbacks = self._due[tick]
        while callbacks:  # a callback may cancel others
            callbacks.pop()()
        del self._due[tick]
