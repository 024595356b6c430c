"""Leases that others have still, and that we are to take over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.leases.rules import succeeds

_SOON: Final = 0.2
"""Of the time between two rounds, where something is about to become free."""


class Awaited:
    """By name; while there are any the next round comes soon. `turn` (seconds) lies between two rounds."""

    def __init__(self, wake: Callable[[], object], turn: float) -> None:
        self._wake = wake
        self._soon = turn * _SOON
        self._resources: set[str] = set()

    def __contains__(self, resource: str) -> bool:
        return resource in self._resources

    def add(self, resource: str) -> None:
        """It is being handed over, or is about to run out."""
        if not self._resources:
            asyncio.get_running_loop().call_later(self._soon, self._wake)
        self._resources.add(resource)

    async def look(self, store: LeaseStore, wanted: Iterable[str], me: str, gone: Iterable[str]) -> None:
        """Keeps what others have still of what is wanted: one question for all. Raises LeasesUnavailable."""
        asked = [resource for resource in wanted if resource in self._resources]
        self._resources.clear()
        for lease in await store.read(asked) if asked else ():
            if lease is not None and lease.owner not in (me, *gone) and not succeeds(me, lease.owner):
                self.add(lease.resource)
