"""The fenced log of a shard: what implementations promise.

Positions are consecutive from 1. Only the process whose epoch equals the one of the shard's lease may append
or trim; the comparison and the write are one atomic step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a log."""

    position: int
    payload: bytes


class LogError(Exception):
    """A log did not do what was asked."""


class LogFenced(LogError):
    """The shard's lease carries another epoch: this process is no longer the owner. Nothing was written."""


class LogNotWritten(LogError):
    """Surely not written: the store is away, full, or refuses; `reason` says which."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class LogRefused(LogNotWritten):
    """Not written: the store is there and takes nothing, for want of memory or disk. Reading goes on."""


class LogOutOfOrder(LogNotWritten):
    """Not written: the log does not end right before `first_position`. Memory and log differ; reload."""


class LogOutcomeUnknown(LogError):
    """Asked for, and no answer came: it may have been written. Raise the epoch and read again to know."""


class LogUnavailable(LogError):
    """The log cannot be read at the moment."""


class StreamLog(Protocol):
    """Logs by shard name."""

    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        """Append all payloads at `first_position`, `first_position + 1`, …, or none.

        Raises LogFenced, LogOutOfOrder, LogRefused, LogNotWritten, LogOutcomeUnknown.
        """

    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        """At most `limit` entries behind `after`, ascending; [] at the end. Raises LogUnavailable."""

    async def last_position(self, shard: str) -> int:
        """Position of the last append, trimmed or not; 0 when there was none. Raises LogUnavailable."""

    async def trim(self, shard: str, epoch: int, before: int) -> None:
        """Drop entries below position `before`. Raises LogFenced, LogNotWritten, LogOutcomeUnknown."""

    async def delete(self, shard: str) -> None:
        """Forget the log; the next append starts at 1. Raises LogNotWritten, LogOutcomeUnknown."""
