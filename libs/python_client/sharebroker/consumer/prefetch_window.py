"""Limits how many records a consumer holds, by the rate at which the application processes them."""

from __future__ import annotations

from typing import Final

_INITIAL_WINDOW: Final = 16
_AHEAD: Final = 1.0


class PrefetchWindow:
    """A window that starts at 16 records, doubles while the application keeps up, and shrinks when it is
    slow.

    It covers the work of `ahead` seconds, so that locks do not time out on prefetched records. `limit` is its
    largest size. `now` is a monotonic clock in seconds.
    """

    __slots__ = ("_limit", "_returned", "_returned_at", "ahead", "window")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._returned_at = 0.0
        self._returned = 0
        self.ahead = _AHEAD
        """Seconds of work that the window covers."""
        self.window = min(_INITIAL_WINDOW, limit)
        """The number of records to hold at most."""

    def set_lock_timeout(self, lock_timeout: float) -> None:
        """Limits `ahead` to a quarter of the lock timeout (seconds), and to one second."""
        self.ahead = min(_AHEAD, lock_timeout / 4)

    def poll_returned(self, records: int, now: float) -> None:
        """Starts measuring how long the application takes for this number of records."""
        self._returned_at = now
        self._returned = records

    def poll_started(self, now: float) -> None:
        """Adapts the window: the application finished the records of the last poll and waits for more."""
        if self._returned == 0:
            return
        elapsed = now - self._returned_at
        target = self._limit if elapsed <= 0 else int(self._returned * self.ahead / elapsed)
        self.window = max(1, min(target, self.window * 2, self._limit))
        self._returned = 0
