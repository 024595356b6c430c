"""How share fetches fare at a gateway: those under way, those that ran out their wait, the others' time."""

from __future__ import annotations

from typing import Final

from sharebroker_server.telemetry.metrics import Histogram

_EARLY: Final = 0.001
"""Seconds by which a timer may be early."""


class FetchCounts:
    """Of ShareFetch requests that are served; idle Kafka clients are answered without that (see Quiet).

    `seconds` is how long those took that got records.
    """

    __slots__ = ("expired", "seconds", "under_way")

    def __init__(self) -> None:
        self.under_way = 0
        self.expired = 0
        self.seconds = Histogram()

    def answered(self, found: bool, took: float, wait: float) -> None:
        """A fetch that would wait for `wait` seconds took so many, and found records or not."""
        if found:
            self.seconds.add_seconds(took)
        elif 0 < wait <= took + _EARLY:
            self.expired += 1
