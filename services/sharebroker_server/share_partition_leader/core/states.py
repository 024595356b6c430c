"""The life of a record in a share-partition, as a table: what is absent is illegal.

Knows states and events only; who holds a record, how often it was delivered and what is durable is decided
by the callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final

from sharebroker_protocol.model import RecordState


class Event(IntEnum):
    """What can happen to a record."""

    __hash__ = int.__hash__  # Enum's own hash is a Python function: five times slower

    ACQUIRE = auto()
    GAP = auto()
    ACCEPT = auto()
    RELEASE = auto()
    REJECT = auto()
    RENEW = auto()
    UNDO = auto()
    """The member gives back what it never looked at."""
    LOCK_TIMEOUT = auto()
    EXHAUST = auto()
    """A release or lock timeout after the last delivery attempt."""
    COMPACT = auto()
    """The log no longer has the record."""
    ABORT = auto()
    """The record belongs to an aborted transaction, or is a transaction's marker."""


TRANSITIONS: Final[Mapping[tuple[RecordState, Event], RecordState]] = {
    (RecordState.AVAILABLE, Event.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, Event.COMPACT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, Event.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.RENEW): RecordState.ACQUIRED,
    (RecordState.ACQUIRED, Event.UNDO): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.LOCK_TIMEOUT): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Event.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Event.ABORT): RecordState.ARCHIVED,
}
"""Every legal step. A record that the SPSO passes simply leaves the table's world."""

EVENT_OF_ACK: Final = (Event.GAP, Event.ACCEPT, Event.RELEASE, Event.REJECT, Event.RENEW)
"""The event of each `AckType`, by its id."""


def after_failed_delivery(event: Event, delivery_count: int, delivery_count_limit: int) -> RecordState:
    """Where an ACQUIRED record goes on RELEASE or LOCK_TIMEOUT: ARCHIVED once the attempts are used up."""
    return TRANSITIONS[
        RecordState.ACQUIRED, Event.EXHAUST if delivery_count >= delivery_count_limit else event
    ]
