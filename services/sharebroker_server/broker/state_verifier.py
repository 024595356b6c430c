"""Verifies the state in memory after a restart or a fail-over of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import structlog

from sharebroker_server.aio import Tasks, doubling
from sharebroker_server.redis_link.port import Link
from sharebroker_server.stream_log.port import LogUnavailable

_log = structlog.get_logger()

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

VerifyState = Callable[[], Awaitable[None]]


class StateVerifier:
    """Runs `checks` when a link detects a restart or a fail-over of Redis.

    Redis may then lack its newest writes, which this process still has in memory. A check is retried until
    Redis responds.
    """

    def __init__(self, links: Iterable[Link], checks: Sequence[VerifyState]) -> None:
        self._checks = checks
        self._tasks = Tasks(lambda error: _log.error("state verification failed", error=repr(error)))
        for link in links:
            link.on_new_server.append(self._start)

    async def stop(self) -> None:
        """Cancels running checks."""
        await self._tasks.stop()

    def _start(self) -> None:
        _log.warning("Redis restarted or failed over; verifying in-memory state against it")
        for check in self._checks:
            self._tasks.spawn(_retry(check))


async def _retry(check: VerifyState) -> None:
    pauses = doubling(_FIRST_PAUSE, _LONGEST_PAUSE)
    while True:
        try:
            return await check()
        except LogUnavailable:
            await asyncio.sleep(next(pauses))
