"""The life cycle of a shard: its states (Kafka: CoordinatorState), and how loading its log fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Machine, RecordCodec
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable
from sharebroker_server.stream_log.port import Entry, LogUnavailable

_log = structlog.get_logger()

_LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines about the same failure: a load is retried every second."""

_TRANSIENT: Final = (LeaseLost, LeasesUnavailable, LogUnavailable)

REPAIR: Final = ". Restore the contents of Redis from a backup; only the server may write there."
"""The advice to the operator about a damaged log."""

R = TypeVar("R")


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


class IllegalShardStateError(Exception):
    """The requested transition is not in the table; the state of the shard is unchanged."""


def transition(current: ShardState, to: ShardState) -> ShardState:
    """Returns `to` if the table permits the transition. Raises IllegalTransitionError."""
    if to not in TRANSITIONS[current]:
        raise IllegalShardStateError(f"{current.name} to {to.name}")
    return to


class DamagedLogError(ValueError):
    """An entry of a log that prevents every load."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"the entry at position {position} of its log {problem}")


def decoded(codec: RecordCodec[R], entries: Sequence[Entry]) -> list[tuple[int, R]]:
    """Returns positions and records. Raises DamagedLogError."""
    records: list[tuple[int, R]] = []
    for entry in entries:
        try:
            records.append((entry.position, codec.decode(entry.payload)))
        except ValueError as error:
            raise DamagedLogError(entry.position, f"is not a valid record ({error})") from error
    return records


def replay(machine: Machine[Any, R, Any], page: Iterable[tuple[int, R]]) -> None:
    """Applies a page of the log to the machine. Raises DamagedLogError."""
    for position, record in page:
        try:
            machine.apply(record, position)
        except Exception as error:
            raise DamagedLogError(position, f"cannot be applied ({error!r})") from error


class LoadFailureReporter:
    """Stores and logs the last load failure of one shard."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._reason = ""
        self._log_at = 0.0

    def record(self, error: Exception, now: float) -> None:
        """Records a failed load at `now` (loop time).

        Logs the traceback of a new failure that is not transient.
        """
        reason = str(error) or repr(error)
        if isinstance(error, DamagedLogError):
            reason += REPAIR
        new = reason != self._reason
        if new or now >= self._log_at:
            traceback = new and not isinstance(error, _TRANSIENT)
            _log.warning("shard not loaded", shard=self._shard, error=repr(error), exc_info=traceback)
            self._log_at = now + _LOG_INTERVAL
        self._reason = reason

    def clear(self) -> None:
        """Records that the shard is loaded."""
        self._reason = ""

    def rejection(self, state: ShardState) -> KafkaError:
        """Returns the error of a command in a state that accepts none."""
        reason = self._reason if state in (ShardState.FAILED, ShardState.LOADING) else ""
        problem = f"it cannot be loaded: {reason}" if reason else state.value
        return KafkaError(REJECTIONS[state], f"{self._shard}: {problem}")
