"""Tracks which records of a log are current, where a record replaces the previous one with the same key.

Such a log can be trimmed up to its oldest current record. An unused key would prevent trimming indefinitely.
Each write therefore also rewrites a few of the oldest keys at the end of the log, while the log is much
longer than the number of keys. The cost is spread over the writes, and no timer is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SLACK: Final = 512
"""The number of records beyond twice the live keys at which old records are rewritten."""


class LiveKeys(Generic[K]):
    """The position of each key's current record, oldest first."""

    __slots__ = ("_last", "_positions")

    def __init__(self) -> None:
        # Ordered by position. A plain dict would iterate over the gaps that moved keys leave at its front.
        self._positions: OrderedDict[K, int] = OrderedDict()
        self._last = 0

    def put(self, key: K, position: int) -> None:
        """Registers the key's current record at `position`, the end of the log."""
        self._positions[key] = self._last = position
        self._positions.move_to_end(key)

    def drop(self, key: K, position: int) -> None:
        """Removes the key: the record at `position` is its tombstone."""
        self._positions.pop(key, None)
        self._last = position

    def skip(self, position: int) -> None:
        """Registers a record at `position` that continues an earlier record of a live key."""
        self._last = position

    def __len__(self) -> int:
        return len(self._positions)

    def trim_before(self) -> int:
        """Returns the position before which no record is current."""
        return next(iter(self._positions.values()), self._last + 1)

    def stale(self, written: int) -> list[K]:
        """Returns the keys to rewrite with `written` other records: twice as many, oldest first, or none."""
        if not written:
            return []
        length = self._last + 1 - self.trim_before()
        if length <= 2 * len(self._positions) + SLACK:
            return []
        return list(islice(self._positions, 2 * written))
