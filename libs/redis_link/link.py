"""A Redis connection that mends itself.

Redis answers in order, so one connection carries the commands of a whole process: they are packed and parsed
by hiredis and travel together, which costs about two microseconds each.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final, cast

import hiredis

from libs.backoff import doubling
from libs.redis_link.errors import (
    RedisError,
    RedisOutcomeUnknown,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    RedisUnfit,
)
from libs.redis_link.replicas import Confirmations, Replicas
from libs.redis_link.target import Server, Target
from libs.redis_link.wire import ScriptFuture, Wire

log = logging.getLogger(__name__)

Part = bytes | str | int

pack: Final = cast("Callable[[tuple[Part, ...]], bytes]", hiredis.pack_command)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds of a link: about `queue_bytes` may wait to be sent; times are seconds.

    `stall`: silence after which a connection with commands in flight is broken;
    `attempt`: one try to connect; `backoff` to `backoff_max`: pause between tries. `replicas` must have
    what a lasting script wrote before it is answered.
    """

    queue_bytes: int = 64 * 1024 * 1024
    stall: float = 5.0
    attempt: float = 3.0
    backoff: float = 0.05
    backoff_max: float = 1.0
    replicas: Replicas | None = None


class RedisLink:
    """One pipelined connection to one Redis or Valkey server; make it with `connect`.

    A reply that is an error raises RedisRefused; a command that surely did not reach Redis RedisUnavailable;
    one that may have, RedisOutcomeUnknown. While the server is away commands fail at once.

    `generation` rises when another server answers than before, or the same one after a restart: what was
    written may be gone. `on_new_server` holds callbacks for that moment.
    """

    def __init__(self, target: Target, settings: LinkSettings) -> None:
        self.server = Server("redis", "0")
        self.generation = 0
        self.on_new_server: list[Callable[[], None]] = []
        self._target = target
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._up = asyncio.Event()
        self._why_down = "it does not answer"
        self._scripts: list[Script] = []
        self._confirmations = Confirmations(self.send, settings.replicas) if settings.replicas else None
        self._mending: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def connect(
        cls, url: str, *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> RedisLink:
        """Connect, trying again for `timeout` seconds while nobody answers.

        Raises RedisUnavailable when nobody did; RedisUrlInvalid, RedisTooOld and RedisRefused (a wrong
        password) at once.
        """
        link = cls(Target.parse(url), settings or LinkSettings())
        try:
            async with asyncio.timeout(timeout):
                await link._establish(patient=False)
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {link._target}: {link._why_down}") from None
        return link

    @property
    def connected(self) -> bool:
        """Whether commands can be sent now."""
        return self._wire is not None

    async def ready(self, timeout: float) -> None:
        """Wait until commands can be sent. Raises RedisUnavailable after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._up.wait()
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {self._target}: {self._why_down}") from None

    def send(self, *parts: Part) -> asyncio.Future[Any]:
        """Queue a command; it leaves with all of this turn of the loop. Failures come by the future."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._send(pack(parts), reply)
        return reply

    async def call(self, *parts: Part, timeout: float) -> Any:
        """Send a command and wait for its answer. Raises RedisOutcomeUnknown after `timeout` seconds."""
        return await within(timeout, self.send(*parts))

    def script(self, source: str, *, lasting: bool = False) -> Script:
        """A Lua script by source; it is loaded again with every connection.

        A `lasting` one is answered when the replicas of the link's settings have what it wrote.
        """
        script = Script(self, source, self._confirmations if lasting else None)
        self._scripts.append(script)
        return script

    async def close(self) -> None:
        """Break the connection for good; commands in flight fail."""
        self._closed = True
        self._why_down = "the link was closed"
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        if self._wire is not None:
            wire = self._wire
            wire.abort()
            await wire.lost.wait()

    def _send(self, command: bytes, reply: asyncio.Future[Any]) -> None:
        if self._wire is None:
            reply.set_exception(RedisUnavailable(f"Redis at {self._target} is away: {self._why_down}"))
        else:
            self._wire.send(command, reply)

    async def _establish(self, *, patient: bool) -> None:
        """Try until connected; when not `patient`, a server that refuses us for good raises."""
        pauses = doubling(self._settings.backoff, self._settings.backoff_max)
        while True:
            try:
                await self._attempt()
            except (RedisTooOld, RedisUnfit, RedisRefused) as refusal:
                if not patient and not _passing(refusal):
                    raise
                self._why_down = str(refusal)
            except (OSError, RedisError) as error:  # TimeoutError is an OSError
                self._why_down = _reason(error)
            else:
                return
            await asyncio.sleep(next(pauses))

    async def _attempt(self) -> None:
        wire = Wire(self._settings.queue_bytes, self._settings.stall, self._lost)
        try:
            async with asyncio.timeout(self._settings.attempt):
                await self._target.open(lambda: wire)
                server = await self._greet(wire)
        except BaseException:
            wire.abort()
            raise
        before, self.server, self._wire = self.server, server, wire
        if before.history not in ("", server.history):
            self.generation += 1
            for callback in self.on_new_server:
                self._loop.call_soon(callback)
        self._up.set()

    async def _greet(self, wire: Wire) -> Server:
        """Log in, learn the server's release and load the scripts, in one round trip."""
        # A server that still reads its data answers INFO, but not PING.
        commands = [*self._target.greeting(), ("INFO", *Server.SECTIONS), ("PING",)]
        commands += [("SCRIPT", "LOAD", script.source) for script in self._scripts]
        replies: list[asyncio.Future[Any]] = [self._loop.create_future() for _ in commands]
        for command, reply in zip(commands, replies, strict=True):
            wire.send(pack(command), reply)
        try:
            await asyncio.wait(replies)
        finally:
            for reply in replies:
                reply.cancel()
        failures = [error for reply in replies if (error := reply.exception()) is not None]
        if failures:
            raise failures[0]
        server = Server.from_info(replies[len(self._target.greeting())].result())
        server.require_supported()
        server.require_dependable()
        return server

    def _lost(self, wire: Wire) -> None:
        if wire is not self._wire:
            return  # an attempt that failed; whoever made it tries again
        self._wire = None
        self._up.clear()
        if self._closed:
            return
        self._why_down = "the connection broke"
        log.warning("lost the connection to Redis at %s", self._target)
        self._mending = self._loop.create_task(self._mend())

    async def _mend(self) -> None:
        await self._establish(patient=True)
        log.info("connected to Redis at %s again", self._target)


class Script:
    """A Lua script of a link; make it with `RedisLink.script`."""

    __slots__ = ("_confirmations", "_link", "_sha", "source")

    def __init__(self, link: RedisLink, source: str, confirmations: Confirmations | None) -> None:
        self.source = source
        self._confirmations = confirmations
        self._link = link
        self._sha = sha1(source.encode(), usedforsecurity=False).hexdigest()

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """Queue a run by EVALSHA, as `RedisLink.send`; a server that forgot the script gets its source."""
        reply = ScriptFuture(loop=self._link._loop)
        reply.source_command = lambda: pack(("EVAL", self.source, len(keys), *keys, *args))
        self._link._send(pack(("EVALSHA", self._sha, len(keys), *keys, *args)), reply)
        return reply if self._confirmations is None else self._confirmations.hold(reply)

    async def call(self, keys: Sequence[Part], args: Sequence[Part], *, timeout: float) -> Any:
        """Run and wait for the answer. Raises RedisOutcomeUnknown after `timeout` seconds."""
        return await within(timeout, self.send(keys, args))


async def within(timeout: float, reply: asyncio.Future[Any]) -> Any:
    """Await a reply under a deadline in seconds. Raises RedisOutcomeUnknown when it passes."""
    try:
        async with asyncio.timeout(timeout):
            return await reply
    except TimeoutError:
        raise RedisOutcomeUnknown(f"no answer from Redis within {timeout} s") from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's own text repeats the address
    return str(error) or "it does not answer"


def _passing(refusal: RedisError) -> bool:
    """Whether a refusal goes away by itself: the server still reads its data, or is not the primary yet."""
    return isinstance(refusal, RedisRefused) and refusal.code in ("LOADING", "MASTERDOWN", "BUSY", "READONLY")
