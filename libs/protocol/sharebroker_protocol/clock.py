"""The clock of a process: seconds since the Unix epoch that never jump back or ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_start = time.time() - time.monotonic()
_count: Callable[[], float] = time.monotonic


def now() -> float:
    """Wall-clock seconds, taken once at start and counted on by the monotonic clock from there."""
    return _start + _count()


def monotonic() -> float:
    """Seconds since some moment, for what lasts within one process."""
    return _count()


@contextmanager
def counted_by(clock: Callable[[], float]) -> Iterator[None]:
    """Time is what `clock` says, in seconds since the Unix epoch: for simulations."""
    global _start, _count
    kept = _start, _count
    _start, _count = 0.0, clock
    try:
        yield
    finally:
        _start, _count = kept
