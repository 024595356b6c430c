"""The guarantees, one sentence each, and the error for a violation."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Invariant(Enum):
    """A guarantee of the system."""

    NEVER_LOST = "a published record is stored unchanged until it is finished"
    STORED_ONCE = "a record of an idempotent producer, or with a message id, is stored once"
    ONE_STATE = "an offset has one state"
    ONE_HOLDER = "a record has at most one holder"
    FORMER_HOLDER_REFUSED = "an acknowledgement of a former holder is not applied"
    FINISHED_STAYS = "an accepted or archived record is not redelivered"
    DURABLE_BEFORE_ANSWERED = "an acknowledgement is durable before its response is sent"
    COUNT_RISES = "the delivery count rises by one with each acquisition"
    COUNT_LIMIT = "no record is delivered more often than the delivery limit"
    START_NEVER_BACK = "the start offset decreases only by an administrator's request"
    IN_FLIGHT_LIMIT = "the number of locked records does not exceed the limit"
    EPOCHS_RISE = "epochs only rise, and a stale epoch writes nothing"
    STATE_HIDDEN = "no member receives the state of share groups"
    REPLAY_AGREES = "the replayed log equals the state in memory"
    VERIFIED = "`sharebroker verify` finds no inconsistency in the logs"
    LAG_AGREES = "the lag is the number of unfinished records"
    NOT_EARLY = "a delayed record is not delivered before its time"
    ON_TIME = "a delayed record is delivered within 100 ms and a tick of its time"
    RUNS_ONCE = "a record with a durable lock is not redelivered before the lock ends"
    LISTED_ONCE = "the journal has each failed record once"
    NOT_EXPIRED = "an expired record is not delivered"
    NOT_RECALLED = "a recalled record is not delivered"
    COPIED_ONCE = "a retried or redriven record is copied once, and unchanged"
    LETTER_ONCE = "a failed record is archived with one dead letter"
    LETTER_OF_FAILURE = "a dead letter is that of a record that failed durably, unchanged"
    FOR_ITS_GROUP = "an addressed record is delivered to its group and no other"
    RECREATED = "a topic that was created again has no record and no state of its predecessor"
    NOT_HIDDEN = "a record is delivered, whatever was finished at its offset before another cluster lost it"
    PAUSED = "a paused group receives no record"
    BREAKS = "a group of which too many records fail is paused"
    RESUMES = "a resumed group is not paused again without new failures"
    IN_TIME = "an available record is delivered soon"
    DRAINS = "every group drains"
    CALLS_END = "every call ends by its deadline"
    NOTHING_LEAKS = "resources used for the load are released after it"


class Violation(AssertionError):
    """A guarantee was violated."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant.name}: {invariant.value}; but {what}")


def broken(invariant: Invariant, what: str) -> NoReturn:
    """Raises Violation."""
    raise Violation(invariant, what)
