"""Pauses between tries."""

from __future__ import annotations

from collections.abc import Iterator


def doubling(first: float, longest: float) -> Iterator[float]:
    """Seconds to wait before the next try: `first`, then twice as long each time, `longest` at most."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
