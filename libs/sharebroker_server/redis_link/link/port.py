"""Ports of a link to Redis: commands and scripts, routed by their key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sharebroker_server.redis_link.link.errors import RedisOutcomeUnknown

Part = bytes | str | int


class Script(Protocol):
    """Lua script of a link; all keys of one call share a hash tag."""

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """Queues a call, as `Link.send` does."""

    async def call(self, keys: Sequence[Part], args: Sequence[Part], *, timeout: float) -> Any:
        """Runs the script and returns its result. Raises RedisOutcomeUnknown after `timeout` seconds."""


class Link(Protocol):
    """Link to one server, or to all primaries of a cluster; create it with `topology.connect.connect`.

    An error reply raises RedisRefused. A command that surely did not reach Redis raises RedisUnavailable. A
    command that may have been executed raises RedisOutcomeUnknown. While the server is unavailable, commands
    fail at once.

    The callbacks in `on_new_server` run when `server_incarnation` increases.
    """

    on_new_server: list[Callable[[], None]]

    @property
    def connected(self) -> bool:
        """Whether commands can be sent now, for every key."""

    @property
    def server_incarnation(self) -> int:
        """Increases with a restart or a fail-over of the server: acknowledged writes may be missing."""

    @property
    def nodes(self) -> Sequence[Link]:
        """One link per server that has keys."""

    async def ready(self, timeout: float) -> None:
        """Waits until commands can be sent. Raises RedisUnavailable after `timeout` seconds."""

    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        """Queues a command, its key first; commands of one event-loop turn share a write."""

    async def call(self, command: Part, *parts: Part, timeout: float) -> Any:
        """Sends a command and returns its reply. Raises RedisOutcomeUnknown after `timeout` seconds."""

    def script(self, source: str, *, replicated: bool = False) -> Script:
        """Registers a Lua script; a `replicated` one returns when the configured replicas have its writes."""

    async def close(self) -> None:
        """Closes the link; commands in flight fail."""


async def within(timeout: float, reply: asyncio.Future[Any]) -> Any:
    """Awaits a reply for `timeout` seconds. Raises RedisOutcomeUnknown after that."""
    try:
        async with asyncio.timeout(timeout):
            return await reply
    except TimeoutError:
        raise RedisOutcomeUnknown(f"no reply from Redis within {timeout} s") from None
