"""Circuit breakers: an administrator resumes groups, and shows after the faults that the breakers work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from tests.simulation.clients import Client, Consumer
from tests.testkit.checker.events import Breaker, Paused, Resumed

PERCENT: Final = 40
FEWEST: Final = 4
"""The least number of finished records from which on a breaker decides."""

WINDOW_MS: Final = 20_000

CONFIGS: Final = {
    "share.breaker.failed.percent": str(PERCENT),
    "share.breaker.min.records": str(FEWEST),
    "share.breaker.window.ms": str(WINDOW_MS),
}

_LOOK: Final = 0.5
_LONGEST: Final = 30.0
"""Seconds until a group is paused whose members reject every record: some hold records that they received
before.
"""

_KNOWN: Final = 3.0
"""Seconds until all leaders know a config and no response of before is on its way."""


class Resumer:
    """Resumes paused groups, as `sharebroker groups resume` does."""

    def __init__(self, client: Client, groups: Collection[str], is_paused: Callable[[str], bool]) -> None:
        """`is_paused` returns whether a process has a group as paused."""
        self._client = client
        self._groups = groups
        self._is_paused = is_paused

    async def run(self, until: float) -> None:
        """Resumes groups until a time."""
        while self._client.time() < until:
            await asyncio.sleep(_LOOK)
            for group in self._groups:
                if self._is_paused(group):
                    await self._resume(group)

    async def show(
        self, group: str, consumers: Collection[Consumer], publish: Callable[[], Awaitable[None]]
    ) -> None:
        """Lets a group fail until it is paused, and resumes it; the checker judges what happens.

        There are no faults. The other groups have no breaker any more.
        """
        await self._disable([other for other in self._groups if other != group])
        for consumer in consumers:
            consumer.rejects = True
        begun = self._client.time()
        while not self._is_paused(group) and self._client.time() < begun + _LONGEST:
            await publish()
            await asyncio.sleep(_LOOK)
        self._observe(group, expected=True)
        await asyncio.sleep(_KNOWN)
        self._client.history.add(Paused(self._client.time(), group))
        await publish()
        await asyncio.sleep(_KNOWN)
        for consumer in consumers:
            consumer.rejects, consumer.steady = False, True
        self._client.history.add(Resumed(self._client.time(), group))
        await self._resume(group)
        await asyncio.sleep(_KNOWN)
        self._observe(group, expected=False)

    async def _disable(self, groups: Collection[str]) -> None:
        for group in groups:
            await self._set(group, {"share.breaker.failed.percent": "0"})
        await asyncio.sleep(_KNOWN)
        for group in groups:
            await self._resume(group)

    def _observe(self, group: str, *, expected: bool) -> None:
        paused = self._is_paused(group)
        self._client.history.add(Breaker(self._client.time(), group, paused=paused, expected=expected))

    async def _resume(self, group: str) -> None:
        self._client.history.log(f"{group} is resumed")
        await self._set(group, {"share.paused": None, "share.pause.reason": None})

    async def _set(self, group: str, values: dict[str, str | None]) -> None:
        """Sets configs of a group; None resets one."""
        request = cluster.IncrementalAlterConfigsRequest()
        resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=group)
        for name, value in values.items():
            resource.configs.add(name=name, value=value)
        await self._client.admin("IncrementalAlterConfigs", request)
