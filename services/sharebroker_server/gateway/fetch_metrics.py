"""Counts share fetches: those in flight, those whose wait ended without records, the time of the others."""

from __future__ import annotations

from typing import Final

from sharebroker_server.telemetry.metrics import Histogram

_EARLY: Final = 0.001
"""Seconds by which a timer may fire early."""


class FetchCounts:
    """ShareFetch requests that reach a handler; the response cache answers idle Kafka clients without one.

    `seconds` is the time of fetches that returned records.
    """

    __slots__ = ("expired", "in_flight", "seconds")

    def __init__(self) -> None:
        self.in_flight = 0
        self.expired = 0
        self.seconds = Histogram()

    def completed(self, found: bool, seconds: float, wait: float) -> None:
        """Counts a fetch that took `seconds` of at most `wait` seconds."""
        if found:
            self.seconds.add_seconds(seconds)
        elif 0 < wait <= seconds + _EARLY:
            self.expired += 1
