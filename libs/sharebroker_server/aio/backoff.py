"""Pauses between attempts."""

from __future__ import annotations

from collections.abc import Iterator


def doubling(first: float, longest: float) -> Iterator[float]:
    """Returns pauses in seconds: `first`, then doubled for each attempt, up to `longest`."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
