"""Bounds on the memory of all connections together: buffered requests, and unread responses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """`limit` bytes for large requests. A request beyond the limit waits for those before it.

    A request larger than the limit is admitted when the budget is unused.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        """Bytes that are reserved."""
        self._limit = limit
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def waiting(self) -> int:
        """The number of waiting reservations."""
        return len(self._waiting)

    def reserve(self, size: int, granted: Callable[[], None]) -> bool:
        """Reserves `size` bytes. Returns True if they are available; else calls `granted` once they are."""
        if self._waiting or not self._fits(size):
            self._waiting.append((size, granted))
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        """Releases `size` reserved bytes."""
        self.used -= size
        self._admit()

    def withdraw(self, size: int, granted: Callable[[], None]) -> None:
        """Withdraws a waiting reservation."""
        self._waiting.remove((size, granted))
        self._admit()

    def _fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, granted = self._waiting.popleft()
            self.used += size
            granted()


class UnreadResponses:
    """Responses that clients do not read, at most `limit` bytes: beyond it, the client that is longest
    without reading is disconnected.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._owners: dict[Callable[[], None], int] = {}

    def add(self, size: int, disconnect: Callable[[], None]) -> None:
        """Adds `size` unread bytes of a client;

        `disconnect` ends its connection and need not call `remove`.
        """
        self._owners[disconnect] = size
        self.bytes += size
        while self.bytes > self._limit and len(self._owners) > 1:
            longest = next(iter(self._owners))
            self.remove(longest)
            longest()

    def remove(self, disconnect: Callable[[], None]) -> None:
        """Removes the bytes of a client that read them or is disconnected."""
        self.bytes -= self._owners.pop(disconnect, 0)
