"""The headers of dead letters: Kafka's six (KIP-1191), and ours, which explain a failed record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from sharebroker_protocol.model import Disposition

PREFIX: Final = "__dlq.errors."

HOPS: Final = PREFIX + "hops"
"""How often the record was a dead letter, also before it was redriven."""

ORIGIN: Final = PREFIX + "origin"
"""Where the record failed first, as topic/partition/offset."""

MESSAGE_ID: Final = PREFIX + "message.id"
"""The message id of the record; a letter has none of its own."""

MAX_HOPS: Final = 3
"""How often a record may become a dead letter."""

WORDS: Final[Mapping[int, str]] = {
    Disposition.REJECTED: "CLIENT_REJECTED_NACK",
    Disposition.EXHAUSTED: "MAX_DELIVERY_ATTEMPTS_REACHED",
    Disposition.EXPIRED: "RECORD_EXPIRED",
}
"""The words of KIP-1317, which is a draft, and one of ours."""


class CopyOutcome(StrEnum):
    """Whether a letter has the key, the value and the headers of its record, and why not."""

    FULL = "full"
    OFF = "off"
    """The group does not copy records."""
    TOO_LARGE = "too_large"
    """The letter would exceed max.message.bytes of the dead letter topic."""
    GONE = "gone"
    """The source log does not have the record any more, or it is unreadable."""


def hops_of(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Returns how often a record was a dead letter; 0 for other records."""
    value = last_header(headers, HOPS)
    return int(value) if value is not None and value.isdigit() and len(value) < 10 else 0


def last_header(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Returns the value of the last header with a name, None without one."""
    found = None
    for key, value in headers:
        if key == name:
            found = value
    return found
