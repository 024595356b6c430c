"""The port of a link to Redis: commands and scripts routed by their key, and errors.

Errors are sorted by what a writer must do: may the command have been executed?
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol


class RedisError(Exception):
    """Base class of all errors of Redis and of the connection to it."""


class RedisUnavailable(RedisError):
    """Redis is unreachable or the send queue is full; the command was surely not executed."""


class RedisOutcomeUnknown(RedisError):
    """The command was sent and no reply arrived; it may have been executed."""


class RedisRefused(RedisError):
    """Redis returned an error: `code` is its first word (OOM, MISCONF, our FENCED), `text` the rest."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}".rstrip())

    @classmethod
    def from_reply(cls, reply: str) -> RedisRefused:
        """Parses the error line of a server."""
        code, _, text = reply.partition(" ")
        return cls(code, text)


class RedisTooOld(RedisError):
    """The server is older than Redis 7.0 or Valkey 8, which the scripts require."""


class RedisMisconfigured(RedisError):
    """The configuration of the server would lose acknowledged writes."""


class RedisInCluster(RedisError):
    """The server is a node of a cluster, and so has only some of the keys."""


class RedisPrimaryUnknown(RedisError):
    """No sentinel has a primary of this name."""


class RedisUrlInvalid(RedisError):
    """The Redis URL is invalid."""


class FormatUnsupported(RedisError):
    """The stored data has a format version that this server cannot read."""


class DataDirectoryInUse(RedisError):
    """Another process holds the data directory."""


class EmbeddedRedisFailed(RedisError):
    """The embedded server could not be started."""


Part = bytes | str | int


class Script(Protocol):
    """Lua script of a link; all keys of one call share a hash tag."""

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """Queues a call, as `Link.send` does."""


class Link(Protocol):
    """Link to one server, or to all primaries of a cluster; create it with `links.connect`.

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
        return await within(timeout, self.send(command, *parts))

    def script(self, source: str, *, replicated: bool = False) -> Script:
        """Registers a Lua script; a `replicated` one returns when the configured replicas have its writes."""

    async def close(self) -> None:
        """Closes the link; commands in flight fail."""


def pass_on(done: asyncio.Future[Any], error: BaseException | None, reply: asyncio.Future[Any]) -> None:
    """Resolves `reply` with the error, if any, else with the result of `done`."""
    if reply.done():
        return
    if error is not None:
        reply.set_exception(error)
    else:
        reply.set_result(done.result())


async def within(timeout: float, reply: asyncio.Future[Any]) -> Any:
    """Awaits a reply for `timeout` seconds. Raises RedisOutcomeUnknown after that."""
    try:
        async with asyncio.timeout(timeout):
            return await reply
    except TimeoutError:
        raise RedisOutcomeUnknown(f"no reply from Redis within {timeout} s") from None


def lua(folder: Path, *names: str, flags: str = "") -> str:
    """Returns the concatenation of the named .lua files of a folder.

    The first line declares `flags`. Without flags, Redis rejects the script before its first line when memory
    or disk is full. "allow-oom" permits its writes even then; "no-writes" permits the script on a read-only
    server.
    """
    parts = [(folder / f"{name}.lua").read_text(encoding="utf-8") for name in names]
    return "".join([f"#!lua flags={flags}\n" if flags else "#!lua\n", *parts])
