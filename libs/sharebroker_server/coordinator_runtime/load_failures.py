"""Why a shard cannot be loaded: told to its callers, and to the log of the process once in a while."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import REFUSALS, ShardState
from sharebroker_server.coordinator_runtime.machine import Codec, Machine
from sharebroker_server.leases.holder import LeaseLost
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.stream_log.port import Entry, LogUnavailable

_logger = logging.getLogger(__name__)

_AGAIN: Final = 60.0
"""Seconds between two lines of the same reason: a load is tried again every second."""

_PASSING: Final = (LeaseLost, LeasesUnavailable, LogUnavailable)

MEND: Final = ". Restore what Redis holds from a backup; nobody but the server may write there."
"""What to do about a log that is damaged."""

R = TypeVar("R")


class DamagedLogError(ValueError):
    """An entry of a log that no load gets past."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(f"the entry at position {position} of its log {what}")


def decoded(codec: Codec[R], entries: Sequence[Entry]) -> list[tuple[int, R]]:
    """Positions and records. Raises DamagedLogError."""
    return [(entry.position, _record(codec, entry)) for entry in entries]


def _record(codec: Codec[R], entry: Entry) -> R:
    try:
        return codec.decode(entry.payload)
    except ValueError as error:
        raise DamagedLogError(entry.position, f"is no record ({error})") from error


def replay(machine: Machine[Any, R, Any], page: Iterable[tuple[int, R]]) -> None:
    """Has the machine apply a page of the log. Raises DamagedLogError."""
    for position, record in page:
        try:
            machine.apply(record, position)
        except Exception as error:
            raise DamagedLogError(position, f"cannot be applied ({error!r})") from error


class Trouble:
    """Of one shard; none while it can be loaded."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._reason = ""
        self._told_again_at = 0.0

    def met(self, error: Exception, now: float) -> None:
        """A load failed at `now` (loop time): with its traceback if this is new and does not pass alone."""
        reason = str(error) or repr(error)
        if isinstance(error, DamagedLogError):
            reason += MEND
        new = reason != self._reason
        if new or now >= self._told_again_at:
            passing = isinstance(error, _PASSING)
            _logger.warning("%s: not loaded: %r", self._shard, error, exc_info=new and not passing)
            self._told_again_at = now + _AGAIN
        self._reason = reason

    def over(self) -> None:
        """The shard is loaded."""
        self._reason = ""

    def refusal(self, state: ShardState) -> KafkaError:
        """What a command gets in a state that takes none."""
        why = self._reason if state in (ShardState.FAILED, ShardState.LOADING) else ""
        told = f"it cannot be loaded: {why}" if why else state.value
        return KafkaError(REFUSALS[state], f"{self._shard}: {told}")
