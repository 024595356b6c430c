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
    LETTER_WRITTEN = auto()
    """The dead letter of the record is written, or is not required any more."""


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
    (RecordState.ARCHIVING, RecordEvent.LETTER_WRITTEN): RecordState.ARCHIVED,
}
"""The state after each legal event; with dead letters, see `after`."""

FAILURES: Final = frozenset({RecordEvent.REJECT, RecordEvent.EXHAUST, RecordEvent.EXPIRE})
"""Events after which a record waits for its dead letter, if the group has dead letters."""


def after(state: RecordState, event: RecordEvent, *, dead_letters: bool) -> RecordState:
    """The state after a legal event; raises KeyError for an illegal one."""
    target = TRANSITIONS[state, event]
    return RecordState.ARCHIVING if dead_letters and event in FAILURES else target


EVENT_OF_ACK: Final = (
    RecordEvent.GAP,
    RecordEvent.ACCEPT,
    RecordEvent.RELEASE,
    RecordEvent.REJECT,
    RecordEvent.RENEW,
)
"""The event of each `AckType`, by its id."""

AFTER_ACK: Final = tuple(
    tuple(after(RecordState.ACQUIRED, event, dead_letters=letters) for event in EVENT_OF_ACK)
    for letters in (False, True)
)
"""The state of a record after each `AckType`, without and with dead letters, by its id."""


def after_failed_delivery(
    event: RecordEvent, delivery_count: int, delivery_count_limit: int, *, dead_letters: bool
) -> RecordState:
    """The state after a RELEASE or LOCK_TIMEOUT; at the delivery limit the record is exhausted."""
    event = RecordEvent.EXHAUST if delivery_count >= delivery_count_limit else event
    return after(RecordState.ACQUIRED, event, dead_letters=dead_letters)
