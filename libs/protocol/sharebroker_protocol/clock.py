"""The process clock: seconds since the Unix epoch, monotonic after start-up; deadlines by this clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_start = time.time() - time.monotonic()
_count: Callable[[], float] = time.monotonic


def now() -> float:
    """Returns seconds since the Unix epoch: the wall clock at start plus the monotonic clock since then."""
    return _start + _count()


def monotonic() -> float:
    """Returns monotonic seconds from an arbitrary origin, for durations within one process."""
    return _count()


class Deadline:
    """A point in time, `seconds` from now."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float) -> None:
        self._at = monotonic() + seconds

    def remaining(self) -> float:
        """Returns the seconds that remain, at least 0."""
        return max(0.0, self._at - monotonic())


@contextmanager
def counted_by(clock: Callable[[], float]) -> Iterator[None]:
    """Replaces the clock by `clock` (seconds since the Unix epoch) for the duration of a simulation."""
    global _start, _count
    kept = _start, _count
    _start, _count = 0.0, clock
    try:
        yield
    finally:
        _start, _count = kept
