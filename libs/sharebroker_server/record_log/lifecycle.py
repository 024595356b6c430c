"""The life of a leader's log as a table, and how it refuses what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

RETRY_AFTER: Final = 0.05
"""Seconds after which it makes sense to try what was refused again."""


class LogState(Enum):
    """OPEN takes appends; RECOVERING only reads, until the lease is claimed again; CLOSED nothing."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


MOVES: Final[Mapping[LogState, frozenset[LogState]]] = {
    LogState.OPEN: frozenset({LogState.RECOVERING, LogState.CLOSED}),
    LogState.RECOVERING: frozenset({LogState.OPEN, LogState.CLOSED}),
    LogState.CLOSED: frozenset(),
}
"""What is absent is illegal."""


def unavailable(partition: str, state: LogState) -> KafkaError:
    """The refusal of a log in a state that does not allow what was asked for."""
    if state is LogState.CLOSED:
        return not_leader(partition)
    return storage_error("an append's outcome is being found out")


def not_leader(partition: str) -> KafkaError:
    """Another process leads the partition, or may."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This process does not lead {partition} any more.")


def storage_error(reason: object) -> KafkaError:
    """The store did not do it."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The store refused: {reason}", retry_after=RETRY_AFTER)
