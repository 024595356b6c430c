"""The end of a share session: its records are released.

A session ends when a request closes it, when its connection closes, or when `SessionReaper` evicts it because
it is idle.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import now
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import ShareSession

_LONGEST_PAUSE: Final = 30.0
"""Maximum seconds between two searches for idle sessions."""


def close_session(gateway: Gateway, session: ShareSession) -> None:
    """Removes the session and releases its records.

    Does nothing if a newer session has replaced it.
    """
    if gateway.sessions.close(session):
        release_session_records(gateway, session)


def release_session_records(gateway: Gateway, session: ShareSession) -> None:
    """Releases the records of a removed session, in the background."""
    partitions = session.forgotten.union(session.partitions)
    release = gateway.leaders.release(*session.key, partitions, session.id)
    gateway.background(release, "share session release failed")


class SessionReaper:
    """Evicts a session `connections.max.idle.ms` after its last request, or up to a tenth of that later."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._idle = gateway.config.connections_max_idle_ms / 1000
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task; does nothing if connections may be idle indefinitely (-1)."""
        if self._idle > 0:
            self._task = asyncio.create_task(self._run(), name="share session reaper")

    async def stop(self) -> None:
        """Ends the task."""
        if self._task is not None:
            await end([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(max(self._idle / 10, 0.1), _LONGEST_PAUSE))
            for session in self._gateway.sessions.expire(now() - self._idle):
                release_session_records(self._gateway, session)
