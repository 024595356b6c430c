"""Timers of many that wait, which end together: a process that wakes less often costs less."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Final

TICK: Final = 0.02
"""Seconds by which a wait may be longer than it was asked for."""


class Ticks:
    """Calls back after a wait, at the end of the tick in which it is over."""

    __slots__ = ("_due", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, set[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def call_at(self, when: float, callback: Callable[[], None]) -> int:
        """Have it called at `when`, in seconds of the loop's clock; gives what `cancel` needs."""
        tick = ceil(when / TICK)
        callbacks = self._due.get(tick)
        if callbacks is None:
            callbacks = self._due[tick] = set()
            self._loop.call_at(tick * TICK, self._over, tick)
        callbacks.add(callback)
        return tick

    def cancel(self, tick: int, callback: Callable[[], None]) -> None:
        """Not any more; nothing happens where it is over."""
        self._due.get(tick, set()).discard(callback)

    def _over(self, tick: int) -> None:
        callbacks = self._due[tick]
        while callbacks:  # one of them may cancel another
            callbacks.pop()()
        del self._due[tick]
