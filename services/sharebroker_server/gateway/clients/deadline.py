"""Deadlines, and calls that are retried until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from sharebroker_protocol.clock import monotonic
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.gateway.config import REQUEST_TIMEOUT

T = TypeVar("T")

MOVED_COORDINATOR: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors of a coordinator that moved or is still loading: a retry soon may succeed."""

_FIRST_DELAY: Final = 0.01
_LONGEST_DELAY: Final = 0.5
_RESERVE: Final = 0.1


class Deadline:
    """A point in time, `seconds` from now."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float) -> None:
        self._at = monotonic() + seconds

    @staticmethod
    def of(context: Any) -> Deadline:
        """Slightly before the caller's deadline, so that the caller receives our error before its own."""
        remaining = context.time_remaining()
        if remaining is None:
            return Deadline(REQUEST_TIMEOUT)
        return Deadline(remaining - min(_RESERVE, remaining / 10))

    def remaining(self) -> float:
        """Seconds that remain, at least 0."""
        return max(0.0, self._at - monotonic())


class Backoff:
    """Pauses that double, within a deadline."""

    __slots__ = ("_deadline", "_pauses")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)

    async def pause(self) -> bool:
        """Waits for the next pause; returns False at once if the deadline is sooner."""
        pause = next(self._pauses)
        if self._deadline.remaining() <= pause:
            return False
        await asyncio.sleep(pause)
        return True


async def retry_until_found(
    attempt: Callable[[float], Awaitable[T]], forget: Callable[[], None], deadline: Deadline
) -> T:
    """Calls `attempt(remaining seconds)` until it finds the coordinator; `forget` drops a stale one.

    Raises the KafkaError of the last attempt.
    """
    backoff = Backoff(deadline)
    while True:
        try:
            return await attempt(deadline.remaining())
        except KafkaError as error:
            if error.code not in MOVED_COORDINATOR:
                raise
            forget()
            if not await backoff.pause():
                raise


def raise_moved(code: int, message: str) -> None:
    """Raises the error of a response if the coordinator moved, so that `retry_until_found` retries."""
    if code in MOVED_COORDINATOR:
        raise KafkaError(ErrorCode(code), message)
