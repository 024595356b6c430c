"""How many spans may be made: what tracing costs stays the same, however much there is to trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STORY: Final = 8
"""Spans that a record's way has as a rule: a trace is not begun, or joined, without room for them."""


class SpanLimit:
    """`rate` spans a second, `burst` at once. `clock` counts seconds."""

    __slots__ = ("_at", "_burst", "_clock", "_left", "_rate", "refused")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()
        self.refused = 0

    def stories(self) -> SpanLimit:
        """How many stories may begin, if each is to be told in full."""
        return SpanLimit(self._rate / STORY, max(1, self._burst // STORY), self._clock)

    def room(self) -> bool:
        """Whether a whole story may be told."""
        return self._has(min(STORY, self._burst))

    def take(self, spans: int = 1) -> bool:
        """So many, or more than `burst` of a full one; False where they may not be made."""
        if not self._has(min(spans, self._burst)):
            self.refused += 1
            return False
        self._left -= spans
        return True

    def _has(self, spans: int) -> bool:
        if self._left >= spans:
            return True
        at = self._clock()
        self._left = min(self._burst, self._left + (at - self._at) * self._rate)
        self._at = at
        return self._left >= spans
