"""Which records of a log still count, where each record replaces the one before it with the same key.

A log of such records can be trimmed up to its oldest record that counts. A key nobody touches would hold
the trimming up for ever, so each write also moves a few of the oldest keys to the end while the log is much
longer than what lives: the cost is spread over the writes, and no timer is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SLACK: Final = 512
"""Records a log may hold beyond twice its live keys before old ones are moved."""


class LiveKeys(Generic[K]):
    """The position of each key's latest record, oldest first."""

    __slots__ = ("_last", "_positions")

    def __init__(self) -> None:
        # Ordered by position; a plain dict would walk over the gaps that moved keys leave at its front.
        self._positions: OrderedDict[K, int] = OrderedDict()
        self._last = 0

    def put(self, key: K, position: int) -> None:
        """The key's latest record is at `position`, the end of the log."""
        self._positions[key] = self._last = position
        self._positions.move_to_end(key)

    def drop(self, key: K, position: int) -> None:
        """The record at `position` says that the key is gone."""
        self._positions.pop(key, None)
        self._last = position

    def pass_by(self, position: int) -> None:
        """The record at `position` is part of what a live key's record began."""
        self._last = position

    def __len__(self) -> int:
        return len(self._positions)

    def trim_before(self) -> int:
        """Records below this position count for nothing."""
        return next(iter(self._positions.values()), self._last + 1)

    def stale(self, written: int) -> list[K]:
        """Keys to write anew along with `written` other records: twice as many, oldest first, or none."""
        if not written:
            return []
        length = self._last + 1 - self.trim_before()
        if length <= 2 * len(self._positions) + SLACK:
            return []
        return list(islice(self._positions, 2 * written))
