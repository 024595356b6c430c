"""The promises, a sentence each, and what is raised when one is broken."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Invariant(Enum):
    """A promise of the system."""

    NEVER_LOST = "a published record is kept, unchanged, until somebody has finished it"
    ONE_STATE = "an offset has one state"
    ONE_HOLDER = "a lock has one holder at most"
    FORMER_HOLDER_REFUSED = "an acknowledgement of a former holder is not applied"
    FINISHED_STAYS = "what was accepted or archived is not delivered again"
    DURABLE_BEFORE_ANSWERED = "an acknowledgement is durable before it is answered"
    COUNT_RISES = "the delivery count rises by one with each acquisition"
    COUNT_LIMIT = "no record is delivered more often than the limit says"
    START_NEVER_BACK = "the start offset does not go back, but by an administrator"
    IN_FLIGHT_LIMIT = "no more records are locked than the limit says"
    EPOCHS_RISE = "epochs only rise, and a stale epoch writes nothing"
    REPLAY_AGREES = "the log gives the state that its keeper has in memory"
    VERIFIED = "`sharebroker verify` finds nothing in the logs that cannot be right"
    LAG_AGREES = "the lag is the number of unfinished records"
    IN_TIME = "a record that is free is delivered soon"
    DRAINS = "every group drains"
    CALLS_END = "every call ends by its deadline"
    NOTHING_LEAKS = "what was needed for the load is given back after it"


class Violation(AssertionError):
    """A promise was broken."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant.name}: {invariant.value}; but {what}")


def broken(invariant: Invariant, what: str) -> NoReturn:
    """Raises Violation."""
    raise Violation(invariant, what)
