"""Names of machines."""

from __future__ import annotations


def nameable(host: str) -> bool:
    """Whether a resolver can be asked about it: no part is empty or longer than 63 (RFC 1035, 2.3.4)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
