"""Topic ids: 16 bytes on the wire, Kafka's text of 22 characters elsewhere; "" means no id."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Final

ZERO: Final = bytes(16)


@lru_cache(4096)
def id_text(raw: bytes) -> str:
    """Returns the text of 16 bytes; "" for zeros."""
    return "" if raw == ZERO else urlsafe_b64encode(raw).rstrip(b"=").decode()


@lru_cache(4096)
def id_bytes(text: str) -> bytes:
    """Returns the 16 bytes of a text; zeros for "". Raises ValueError for a text that is not an id."""
    if not text:
        return ZERO
    raw = b64decode(f"{text}==", b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id")
    return raw
