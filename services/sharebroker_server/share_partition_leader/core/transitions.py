"""The states of a record and the legal transitions between them.

Any pair of state and event that is not in the table is illegal. The callers decide which member holds a
record, how often it was delivered, and what is durable.

A record that the start offset passes has no state any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final

from sharebroker_protocol.model import RecordState


class RecordEvent(IntEnum):
    """An event in the life of a record."""

    __hash__ = int.__hash__  # Enum's own hash is a Python function: five times slower

    ACQUIRE = auto()
    GAP = auto()
    ACCEPT = auto()
    RELEASE = auto()
    REJECT = auto()
    RENEW = auto()
    UNDO = auto()
    """The acquisition is undone: the application never received the record."""
    LOCK_TIMEOUT = auto()
    EXHAUST = auto()
    """A release or lock timeout of a record that reached the delivery limit."""
    COMPACT = auto()
    """The log does not have the record any more."""
    ABORT = auto()
    """The record belongs to an aborted transaction, or is a transaction's marker."""
    EXPIRE = auto()
    """The record is older than the group permits."""


TRANSITIONS: Final[Mapping[tuple[RecordState, RecordEvent], RecordState]] = {
    (RecordState.AVAILABLE, RecordEvent.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, RecordEvent.COMPACT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, RecordEvent.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, RecordEvent.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.RENEW): RecordState.ACQUIRED,
    (RecordState.ACQUIRED, RecordEvent.UNDO): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, RecordEvent.LOCK_TIMEOUT): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, RecordEvent.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.ABORT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.EXPIRE): RecordState.ARCHIVED,
}
"""The state after each legal event."""

EVENT_OF_ACK: Final = (
    RecordEvent.GAP,
    RecordEvent.ACCEPT,
    RecordEvent.RELEASE,
    RecordEvent.REJECT,
    RecordEvent.RENEW,
)
"""The event of each `AckType`, by its id."""

AFTER_ACK: Final = tuple(TRANSITIONS[RecordState.ACQUIRED, event] for event in EVENT_OF_ACK)
"""The state of a record after each `AckType`, by its id."""


def after_failed_delivery(event: RecordEvent, delivery_count: int, delivery_count_limit: int) -> RecordState:
    """The state after a RELEASE or LOCK_TIMEOUT: ARCHIVED once the delivery limit is reached."""
    return TRANSITIONS[
        RecordState.ACQUIRED, RecordEvent.EXHAUST if delivery_count >= delivery_count_limit else event
    ]
