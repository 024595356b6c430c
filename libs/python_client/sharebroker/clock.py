"""The client's clock: seconds since the Unix epoch that never jump back or ahead."""

from __future__ import annotations

import time

_START = time.time() - time.monotonic()


def now() -> float:
    """Wall-clock seconds, taken once at start and counted on by the monotonic clock from there."""
    return _START + time.monotonic()
