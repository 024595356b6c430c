"""The phases of a leader's log as a table, and the errors of operations that a phase does not permit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

RETRY_AFTER: Final = 0.05
"""Seconds after which a rejected request may be retried."""


class LogPhase(Enum):
    """OPEN accepts appends; RECOVERING only reads, until the lease is claimed again; CLOSED rejects all."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[LogPhase, frozenset[LogPhase]]] = {
    LogPhase.OPEN: frozenset({LogPhase.RECOVERING, LogPhase.CLOSED}),
    LogPhase.RECOVERING: frozenset({LogPhase.OPEN, LogPhase.CLOSED}),
    LogPhase.CLOSED: frozenset(),
}
"""The legal transitions; any other is ignored."""


def unavailable(partition: str, state: LogPhase) -> KafkaError:
    """Returns the error of an operation that the current phase does not permit."""
    if state is LogPhase.CLOSED:
        return not_leader(partition)
    return storage_error("the log is recovering from an append of unknown outcome")


def not_leader(partition: str) -> KafkaError:
    """Returns the error of a partition that another process leads, or may lead."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {partition}.")


def storage_error(reason: object) -> KafkaError:
    """Returns the error of a failed store operation."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The store failed: {reason}", retry_after=RETRY_AFTER)
