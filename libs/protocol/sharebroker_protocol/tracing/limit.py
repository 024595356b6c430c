"""Limits the number of spans, so that the cost of tracing stays constant under load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STORY: Final = 8
"""The usual number of spans of a record; a trace is started or joined only if they fit."""


class SpanLimit:
    """A token bucket of `rate` spans per second and `burst` at once. `clock` returns seconds."""

    __slots__ = ("_at", "_burst", "_clock", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def stories(self) -> SpanLimit:
        """Returns a limit on new traces such that each fits completely."""
        return SpanLimit(self._rate / STORY, max(1, self._burst // STORY), self._clock)

    def room(self) -> bool:
        """Whether the spans of a whole trace fit."""
        return self._has(min(STORY, self._burst))

    def take(self, spans: int = 1) -> bool:
        """Takes tokens for spans (at most a full bucket); returns False if there are too few."""
        if not self._has(min(spans, self._burst)):
            return False
        self._tokens -= spans
        return True

    def _has(self, spans: int) -> bool:
        if self._tokens >= spans:
            return True
        at = self._clock()
        self._tokens = min(self._burst, self._tokens + (at - self._at) * self._rate)
        self._at = at
        return self._tokens >= spans
