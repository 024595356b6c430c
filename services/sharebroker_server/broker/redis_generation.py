"""Has everything in memory compared with Redis when that may have lost what it had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import structlog

from sharebroker_server.aio.backoff import doubling
from sharebroker_server.aio.tasks import Tasks
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.stream_log.port import LogUnavailable

_log = structlog.get_logger()

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

Recheck = Callable[[], Awaitable[None]]


class Rechecks:
    """After a restart or a fail-over Redis may lack the newest writes; a process that lived on has them.

    Each of `checks` looks for that, and is asked again until Redis has answered it.
    """

    def __init__(self, links: Iterable[Link], checks: Sequence[Recheck]) -> None:
        self._checks = checks
        self._tasks = Tasks(lambda error: _log.error("a recheck failed", error=repr(error)))
        for link in links:
            link.on_new_server.append(self._start)

    async def stop(self) -> None:
        """Look no further."""
        await self._tasks.stop()

    def _start(self) -> None:
        _log.warning("Redis is another than before, or was restarted: what is in memory is compared with it")
        for check in self._checks:
            self._tasks.spawn(_persistently(check))


async def _persistently(check: Recheck) -> None:
    pauses = doubling(_FIRST_PAUSE, _LONGEST_PAUSE)
    while True:
        try:
            return await check()
        except LogUnavailable:
            await asyncio.sleep(next(pauses))
