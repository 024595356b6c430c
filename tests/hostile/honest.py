"""An honest client beside an attack: it publishes, acquires and acknowledges, and measures its waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import grpc

from tests.support.client import Client, connected
from tests.testkit.waiting import eventually

PAUSE: Final = 0.02
"""Seconds between two rounds."""

TIMEOUT: Final = 120.0
"""Seconds after which a call of the honest client fails; a wait that long is a result, not an error."""


@dataclass
class Waits:
    """The waits of one kind of call in seconds, in the order of the calls."""

    seconds: list[float] = field(default_factory=list)
    _since: float | None = None

    def begin(self) -> None:
        """A call begins."""
        self._since = monotonic()

    def end(self) -> None:
        """The call has its response."""
        assert self._since is not None
        self.seconds.append(monotonic() - self._since)
        self._since = None

    @property
    def longest(self) -> float:
        """The longest wait, including that of a call in progress."""
        pending = [] if self._since is None else [monotonic() - self._since]
        return max([*self.seconds, *pending], default=0.0)


class Honest:
    """One member of a share group that publishes a record, acquires it and accepts it, again and again."""

    def __init__(self, client: Client, topic: str, group_id: str) -> None:
        self.publishes = Waits()
        self.acquires = Waits()
        self.acknowledges = Waits()
        self.failures: list[Exception] = []
        self._client = client
        self._topic = topic
        self._group_id = group_id

    @property
    def rounds(self) -> int:
        """The number of completed rounds."""
        return len(self.acknowledges.seconds)

    async def work(self) -> None:
        """Works until it is cancelled."""
        while True:
            try:
                await self.round()
            except (AssertionError, grpc.aio.AioRpcError) as failure:
                self.failures.append(failure)
            await asyncio.sleep(PAUSE)

    async def round(self) -> None:
        """Publishes, acquires and accepts one record."""
        self.publishes.begin()
        await self._client.publish(self._topic, ["x"], timeout=TIMEOUT)
        self.publishes.end()
        self.acquires.begin()
        acquired = await self._client.acquire(
            self._group_id, self._topic, 1, member="honest", timeout=TIMEOUT
        )
        self.acquires.end()
        self.acknowledges.begin()
        codes = await self._client.acknowledge(self._group_id, "honest", acquired.records, timeout=TIMEOUT)
        self.acknowledges.end()
        assert acquired.records, "no record was acquired"
        assert not any(codes), f"the lock was lost: {codes}"


@asynccontextmanager
async def honest_client(address: str) -> AsyncIterator[Honest]:
    """Provides an honest client at work on a topic of its own; at the end it completes two more rounds."""
    async with connected(address) as client:
        topic, _ = await client.create()
        honest = Honest(client, topic, await client.group())
        for _ in range(3):
            await honest.round()
        honest.publishes, honest.acquires, honest.acknowledges = Waits(), Waits(), Waits()
        working = asyncio.create_task(honest.work())
        try:
            yield honest
            goal = honest.rounds + 2
            await eventually(lambda: honest.rounds >= goal, TIMEOUT)
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
