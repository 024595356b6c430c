"""What stores need of Redis: commands and scripts that go to wherever their key lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sharebroker_server.redis_link.link.errors import RedisOutcomeUnknown

Part = bytes | str | int


class Script(Protocol):
    """A Lua script of a link; all keys of a run share a hash tag."""

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """Queue a run, as `Link.send`."""

    async def call(self, keys: Sequence[Part], args: Sequence[Part], *, timeout: float) -> Any:
        """Run and wait for the answer. Raises RedisOutcomeUnknown after `timeout` seconds."""


class Link(Protocol):
    """The way to one server, or to all primaries of a cluster; make it with `connection.connect`.

    A reply that is an error raises RedisRefused; a command that surely did not reach Redis RedisUnavailable;
    one that may have, RedisOutcomeUnknown. While the server is away commands fail at once.

    `on_new_server` holds callbacks for the moment in which `generation` rises.
    """

    on_new_server: list[Callable[[], None]]

    @property
    def connected(self) -> bool:
        """Whether commands can be sent now, whatever their key."""

    @property
    def generation(self) -> int:
        """Rises when another server answers, or one after a restart: what was written may be gone."""

    @property
    def nodes(self) -> Sequence[Link]:
        """A link to each server that has keys, for what has to be asked of all."""

    async def ready(self, timeout: float) -> None:
        """Wait until commands can be sent. Raises RedisUnavailable after `timeout` seconds."""

    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        """Queue a command, its key first; it leaves with all of this turn. Failures come by the future."""

    async def call(self, command: Part, *parts: Part, timeout: float) -> Any:
        """Send a command and wait for its answer. Raises RedisOutcomeUnknown after `timeout` seconds."""

    def script(self, source: str, *, lasting: bool = False) -> Script:
        """A Lua script by source; a `lasting` one is answered when the wanted replicas have what it wrote."""

    async def close(self) -> None:
        """Break the connection for good; commands in flight fail."""


async def within(timeout: float, reply: asyncio.Future[Any]) -> Any:
    """Await a reply under a deadline in seconds. Raises RedisOutcomeUnknown when it passes."""
    try:
        async with asyncio.timeout(timeout):
            return await reply
    except TimeoutError:
        raise RedisOutcomeUnknown(f"no answer from Redis within {timeout} s") from None
