"""Bounds on what all connections of the door hold together: requests that came, answers not taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Budget:
    """`limit` bytes for large requests; who asks for more than there is waits for those before it.

    A request larger than all of it is let in when nothing else is there.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        """Bytes that are held."""
        self._limit = limit
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self._waiting)

    def take(self, size: int, granted: Callable[[], None]) -> bool:
        """Hold `size` bytes: True where there is room now; else `granted` is called once they are held."""
        if self._waiting or not self._fits(size):
            self._waiting.append((size, granted))
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Hold `size` bytes no more."""
        self.used -= size
        self._admit()

    def withdraw(self, size: int, granted: Callable[[], None]) -> None:
        """Wait no more for what has not been granted."""
        self._waiting.remove((size, granted))
        self._admit()

    def _fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, granted = self._waiting.popleft()
            self.used += size
            granted()


class Untaken:
    """Answers that clients leave lying, at most `limit` bytes: beyond, who left his longest is dropped."""

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._owners: dict[Callable[[], None], int] = {}

    def add(self, size: int, drop: Callable[[], None]) -> None:
        """A client left `size` bytes lying; `drop` ends its connection and need not call `remove`."""
        self._owners[drop] = size
        self.bytes += size
        while self.bytes > self._limit and len(self._owners) > 1:
            longest = next(iter(self._owners))
            self.remove(longest)
            longest()

    def remove(self, drop: Callable[[], None]) -> None:
        """It took them, or it is gone."""
        self.bytes -= self._owners.pop(drop, 0)
