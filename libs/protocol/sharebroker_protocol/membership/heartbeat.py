"""Heartbeat requests and responses, and the reaction to each error (Kafka: ShareGroupHeartbeat)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import DESCRIPTIONS, ErrorCode
from sharebroker_protocol.model import TopicIdPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat. `rack_id` and `topics` are None if they have not changed since the last heartbeat."""

    member_epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """A response without error. `interval` is in seconds; `assignment` is None if it has not changed."""

    member_epoch: int
    interval: float
    assignment: frozenset[TopicIdPartition] | None = None


class Reaction(Enum):
    """How a member reacts to an error in a heartbeat response."""

    REJOIN = "drop the assignment, join again with epoch 0"
    BACK_OFF = "send a full heartbeat after a backoff"
    REPORT = "report the error to the application and continue"
    GIVE_UP = "report the error to the application and stop heartbeating"


_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.REPORT,
}


def reaction_to(code: ErrorCode) -> Reaction:
    """Returns the reaction to `code`; a code that is not in the table is fatal unless it is retriable."""
    default = Reaction.BACK_OFF if DESCRIPTIONS[code].retriable else Reaction.GIVE_UP
    return _REACTIONS.get(code, default)
