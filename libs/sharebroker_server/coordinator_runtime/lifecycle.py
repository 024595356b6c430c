"""The life of a shard, as a table (Kafka's CoordinatorState)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import ErrorCode


class ShardState(Enum):
    """What a shard is doing."""

    INITIAL = "claimed, nothing read yet"
    LOADING = "replaying its log"
    ACTIVE = "taking commands"
    FAILED = "memory thrown away; it will be loaded again"
    CLOSED = "no longer ours; for good"


TRANSITIONS: Final[Mapping[ShardState, frozenset[ShardState]]] = {
    ShardState.INITIAL: frozenset({ShardState.LOADING, ShardState.CLOSED}),
    ShardState.LOADING: frozenset({ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED}),
    ShardState.ACTIVE: frozenset({ShardState.FAILED, ShardState.CLOSED}),
    ShardState.FAILED: frozenset({ShardState.LOADING, ShardState.CLOSED}),
    ShardState.CLOSED: frozenset(),
}
"""What is absent is illegal."""

REFUSALS: Final[Mapping[ShardState, ErrorCode]] = {
    ShardState.INITIAL: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""What a command gets in a state that takes none."""


class IllegalTransitionError(Exception):
    """A shard was asked to go where the table does not lead; its state is unchanged."""


def transition(current: ShardState, to: ShardState) -> ShardState:
    """`to`, when the table allows it; raises IllegalTransitionError."""
    if to not in TRANSITIONS[current]:
        raise IllegalTransitionError(f"{current.name} to {to.name}")
    return to
