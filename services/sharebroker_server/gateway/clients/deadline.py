"""Time limits, and calls that are repeated within them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from sharebroker_protocol.clock import monotonic
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio.backoff import doubling
from sharebroker_server.gateway.config import REQUEST_TIMEOUT

T = TypeVar("T")

MOVED_COORDINATOR: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""A coordinator is not there yet, or not there any more: asking again soon helps."""

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
        """A little before the caller's deadline, so that it hears our error and not its own clock."""
        left = context.time_remaining()
        return Deadline(REQUEST_TIMEOUT if left is None else left - min(_RESERVE, left / 10))

    def left(self) -> float:
        """Seconds that remain, not below 0."""
        return max(0.0, self._at - monotonic())


class Backoff:
    """Pauses that double, within a deadline."""

    __slots__ = ("_deadline", "_pauses")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)

    async def pause(self) -> bool:
        """Wait for a while; False, at once, when the deadline would pass."""
        pause = next(self._pauses)
        if self._deadline.left() <= pause:
            return False
        await asyncio.sleep(pause)
        return True


async def persist(
    attempt: Callable[[float], Awaitable[T]], forget: Callable[[], None], deadline: Deadline
) -> T:
    """Call `attempt(seconds left)` until it is not refused for want of the right coordinator.

    Raises the KafkaError of the last attempt.
    """
    backoff = Backoff(deadline)
    while True:
        try:
            return await attempt(deadline.left())
        except KafkaError as error:
            if error.code not in MOVED_COORDINATOR:
                raise
            forget()
            if not await backoff.pause():
                raise


def raise_moved(code: int, message: str) -> None:
    """Raise an in-band error of a coordinator that moved, so that the call is repeated."""
    if code in MOVED_COORDINATOR:
        raise KafkaError(ErrorCode(code), message)
