"""The life cycle of a shard as a transition table (Kafka: CoordinatorState)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import ErrorCode


class ShardState(Enum):
    """The states of a shard; clients see the value in error messages."""

    INITIAL = "claimed, not loaded yet"
    LOADING = "replaying its log"
    ACTIVE = "active"
    FAILED = "failed, to be loaded again"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[ShardState, frozenset[ShardState]]] = {
    ShardState.INITIAL: frozenset({ShardState.LOADING, ShardState.CLOSED}),
    ShardState.LOADING: frozenset({ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED}),
    ShardState.ACTIVE: frozenset({ShardState.FAILED, ShardState.CLOSED}),
    ShardState.FAILED: frozenset({ShardState.LOADING, ShardState.CLOSED}),
    ShardState.CLOSED: frozenset(),
}
"""The legal transitions; an absent one is illegal."""

REJECTIONS: Final[Mapping[ShardState, ErrorCode]] = {
    ShardState.INITIAL: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""The error of a command by state; ACTIVE accepts commands."""


class IllegalTransitionError(Exception):
    """The requested transition is not in the table; the state of the shard is unchanged."""


def transition(current: ShardState, to: ShardState) -> ShardState:
    """Returns `to` if the table permits the transition. Raises IllegalTransitionError."""
    if to not in TRANSITIONS[current]:
        raise IllegalTransitionError(f"{current.name} to {to.name}")
    return to
