"""How many records to hold at most, by how fast the application works them off."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 16
_AHEAD: Final = 1.0


class PrefetchWindow:
    """A window that starts small, doubles while the application keeps up, and shrinks when it is slow.

    It holds the work of `ahead` seconds, so that locks do not run out on records that wait for their turn.
    `most` is its largest size. `now` is a clock in seconds that only rises.
    """

    __slots__ = ("_given", "_most", "_since", "ahead", "window")

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = 0.0
        self._given = 0
        self.ahead = _AHEAD
        self.window = min(_FIRST, most)

    def set_lock_timeout(self, lock_timeout: float) -> None:
        """Locks last for so many seconds: a quarter of that is for waiting, at most a second."""
        self.ahead = min(_AHEAD, lock_timeout / 4)

    def poll_returned(self, records: int, now: float) -> None:
        """The application got records, to come back when it wants more."""
        self._since = now
        self._given = records

    def poll_started(self, now: float) -> None:
        """The application wants more records."""
        if self._given == 0:
            return
        took = now - self._since
        worth = self._most if took <= 0 else int(self._given * self.ahead / took)
        self.window = max(1, min(worth, self.window * 2, self._most))
        self._given = 0
