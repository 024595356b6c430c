"""Checks of host names."""

from __future__ import annotations


def is_resolvable(host: str) -> bool:
    """Returns whether a resolver accepts the name: no label is empty or longer than 63 (RFC 1035, 2.3.4)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
