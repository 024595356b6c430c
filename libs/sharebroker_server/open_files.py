"""Connections that this process may have open, by the operating system's limit on open files."""

from __future__ import annotations

import resource
from typing import Final

_RESERVED: Final = 256
"""File descriptors for Redis, other brokers and logs."""


def connections_permitted() -> int:
    """Returns the number of connections that the limit permits, after raising the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # the soft limit applies
    return 1 << 30 if soft == resource.RLIM_INFINITY else max(soft - _RESERVED, soft // 2)
