"""Evicts idle share sessions: over gRPC the gateway does not detect the end of a client's connection."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import now
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.share.acknowledge import end_session

_LONGEST_PAUSE: Final = 30.0


class SessionReaper:
    """Ends a session `connections.max.idle.ms` after its last request, or up to a tenth of that later."""

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
                end_session(self._gateway, session)
