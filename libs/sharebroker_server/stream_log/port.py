"""The port of the fenced log of a shard.

Positions are consecutive and start at 1. Only a process whose epoch equals the lease epoch of the shard may
append or trim; the comparison and the write are one atomic step.
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
    """A request to a log failed."""


class LogFenced(LogError):
    """Nothing was written: the lease has another epoch, so this process is not the owner."""


class LogNotWritten(LogError):
    """Nothing was written: the store is unavailable, full, or rejects the request; `reason` is a text."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class LogRefused(LogNotWritten):
    """Nothing was written: the store rejects writes for lack of memory or disk; reads succeed."""


class LogFull(LogRefused):
    """Nothing was written: the memory of the store has reached its limit, or its disk is nearly full."""


class LogOutOfOrder(LogNotWritten):
    """Nothing was written: the log does not end before `first_position`. Memory and log differ: reload."""


class LogOutcomeUnknown(LogError):
    """No reply: the write may have happened, or happen later. Raise the lease epoch, then read the log."""


class LogUnavailable(LogError):
    """The log cannot be read."""


class StreamLog(Protocol):
    """Logs by shard name."""

    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        """Appends all payloads at `first_position`, `first_position + 1`, …, or none.

        Raises LogFenced, LogOutOfOrder, LogRefused, LogNotWritten, LogOutcomeUnknown.
        """

    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        """Returns at most `limit` entries after a position, ascending; [] at the end.

        Raises LogUnavailable.
        """

    async def last_position(self, shard: str) -> int:
        """Returns the last position, trimmed or not; 0 for an empty log. Raises LogUnavailable."""

    async def trim(self, shard: str, epoch: int, before: int) -> None:
        """Drops entries below position `before`. Raises LogFenced, LogNotWritten, LogOutcomeUnknown."""

    async def delete(self, shard: str) -> None:
        """Deletes the log; the next append starts at 1. Raises LogNotWritten, LogOutcomeUnknown."""
