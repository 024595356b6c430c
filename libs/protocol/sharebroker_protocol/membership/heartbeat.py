"""What a heartbeat says, and what its answer means (Kafka: ShareGroupHeartbeat)."""

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
    """A heartbeat. `rack_id` and `topics` are None when the coordinator has them already."""

    member_epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """An answer without error. `interval` is in seconds; `assignment` is None when it has not changed."""

    member_epoch: int
    interval: float
    assignment: frozenset[TopicIdPartition] | None = None


class Reaction(Enum):
    """What a member does about an error."""

    REJOIN = "drop the assignment, join again with epoch 0"
    BACK_OFF = "send the whole heartbeat again a little later"
    REPORT = "tell the application, go on as before"
    GIVE_UP = "tell the application, never heartbeat again"


_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.REPORT,
}


def reaction_to(code: ErrorCode) -> Reaction:
    """What a member does about `code`; what the table does not name is fatal unless a retry can help."""
    default = Reaction.BACK_OFF if DESCRIPTIONS[code].retriable else Reaction.GIVE_UP
    return _REACTIONS.get(code, default)
