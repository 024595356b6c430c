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
from typing import Any

from sharebroker_server.aio.backoff import doubling
from sharebroker_server.redis_link.link.connection import ScriptFuture, Wire, pack
from sharebroker_server.redis_link.link.errors import (
    RedisError,
    RedisInCluster,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    RedisUnfit,
)
from sharebroker_server.redis_link.link.port import Part, within
from sharebroker_server.redis_link.link.replicas import Confirmations, Replicas
from sharebroker_server.redis_link.topology.redis_url import Server, Target
from sharebroker_server.redis_link.topology.sentinel import Place

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds of a link: about `queue_bytes` may wait to be sent; times are seconds.

    `stall`: silence after which a connection with commands in flight is broken;
    `attempt`: one try to connect; `backoff` to `backoff_max`: pause between tries. `replicas` must have
    what a lasting script wrote before it is answered. A server that is `in_cluster` has but some of the keys;
    one that may evict them is refused, unless `evicting`: who only looks at it may.
    """

    queue_bytes: int = 64 * 1024 * 1024
    stall: float = 5.0
    attempt: float = 3.0
    backoff: float = 0.05
    backoff_max: float = 1.0
    replicas: Replicas | None = None
    in_cluster: bool = False
    evicting: bool = False


class RedisLink:
    """One pipelined connection to one Redis or Valkey server, as the port says.

    Make it with `connect`, or have it connect by itself with `begin`.
    """

    def __init__(self, place: Place, settings: LinkSettings) -> None:
        self.server = Server("redis", "0")
        self.generation = 0
        self.on_new_server: list[Callable[[], None]] = []
        self._place = place
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._up = asyncio.Event()
        self.why_down = "it does not answer"
        self._scripts: list[LinkScript] = []
        self._confirmations = Confirmations(self.send, settings.replicas) if settings.replicas else None
        self._mending: asyncio.Task[None] | None = None
        self.closed = False

    @classmethod
    async def connect(
        cls, url: str, *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> RedisLink:
        """Connect, trying again for `timeout` seconds while nobody answers.

        Raises as `connect_to`, and RedisUrlInvalid at once.
        """
        return await cls.connect_to(Target.parse(url), timeout=timeout, settings=settings)

    @classmethod
    async def connect_to(
        cls, place: Place, *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> RedisLink:
        """Connect, trying again for `timeout` seconds while nobody answers.

        Raises RedisUnavailable when nobody did; RedisInCluster, RedisTooOld, RedisUnfit, RedisPrimaryUnknown
        and RedisRefused (a wrong password) at once.
        """
        link = cls(place, settings or LinkSettings())
        try:
            async with asyncio.timeout(timeout):
                await link._establish(patient=False)
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {link._place}: {link.why_down}") from None
        return link

    @property
    def connected(self) -> bool:
        """As the port says."""
        return self._wire is not None

    @property
    def nodes(self) -> Sequence[RedisLink]:
        """As the port says."""
        return [self]

    def begin(self) -> None:
        """Connect in the background, however long that takes."""
        self._mending = self._loop.create_task(self._mend())

    async def ready(self, timeout: float) -> None:
        """As the port says."""
        try:
            async with asyncio.timeout(timeout):
                await self._up.wait()
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {self._place}: {self.why_down}") from None

    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        """As the port says."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._send(pack((command, *parts)), reply)
        return reply

    async def call(self, command: Part, *parts: Part, timeout: float) -> Any:
        """As the port says."""
        return await within(timeout, self.send(command, *parts))

    def script(self, source: str, *, lasting: bool = False) -> LinkScript:
        """As the port says; it is loaded again with every connection."""
        script = LinkScript(self, source, self._confirmations if lasting else None)
        self._scripts.append(script)
        return script

    async def close(self) -> None:
        """As the port says."""
        self.closed = True
        self.why_down = "the link was closed"
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        if self._wire is not None:
            wire = self._wire
            wire.abort()
            await wire.lost.wait()

    def _send(self, command: bytes, reply: asyncio.Future[Any]) -> None:
        if self._wire is None:
            reply.set_exception(RedisUnavailable(f"Redis at {self._place} is away: {self.why_down}"))
        else:
            self._wire.send(command, reply)

    async def _establish(self, *, patient: bool) -> None:
        """Try until connected; when not `patient`, a server that refuses us for good raises."""
        pauses = doubling(self._settings.backoff, self._settings.backoff_max)
        while True:
            try:
                await self._attempt()
            except (RedisTooOld, RedisUnfit, RedisInCluster, RedisPrimaryUnknown, RedisRefused) as refusal:
                if not patient and not _passing(refusal):
                    raise
                self.why_down = str(refusal)
            except (OSError, RedisError) as error:  # TimeoutError is an OSError
                self.why_down = _reason(error)
            else:
                return
            await asyncio.sleep(next(pauses))

    async def _attempt(self) -> None:
        target = await self._place.find()
        wire = Wire(self._settings.queue_bytes, self._settings.stall, self._lost)
        try:
            async with asyncio.timeout(self._settings.attempt):
                await target.open(lambda: wire)
                server = await self._greet(wire, target)
        except BaseException:
            wire.abort()
            raise
        before, self.server, self._wire = self.server, server, wire
        if before.history not in ("", server.history):
            self.generation += 1
            for callback in self.on_new_server:
                self._loop.call_soon(callback)
        self._up.set()

    async def _greet(self, wire: Wire, target: Target) -> Server:
        """Log in, learn the server's release and load the scripts, in one round trip."""
        # A server that still reads its data answers INFO, but not PING.
        commands = [*target.greeting(), ("INFO", *Server.SECTIONS), ("PING",)]
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
        server = Server.from_info(replies[len(target.greeting())].result())
        server.require_supported()
        if not self._settings.in_cluster:
            server.require_alone()
        server.require_dependable(self._settings.evicting)
        return server

    def _lost(self, wire: Wire) -> None:
        if wire is not self._wire:
            return  # an attempt that failed; whoever made it tries again
        self._wire = None
        self._up.clear()
        if self.closed:
            return
        self.why_down = "the connection broke"
        log.warning("lost the connection to Redis at %s", self._place)
        self._mending = self._loop.create_task(self._mend())

    async def _mend(self) -> None:
        await self._establish(patient=True)
        log.info("connected to Redis at %s again", self._place)


class LinkScript:
    """A Lua script of one server; make it with `RedisLink.script`."""

    __slots__ = ("_confirmations", "_link", "_sha", "source")

    def __init__(self, link: RedisLink, source: str, confirmations: Confirmations | None) -> None:
        self.source = source
        self._confirmations = confirmations
        self._link = link
        self._sha = sha1(source.encode(), usedforsecurity=False).hexdigest()

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """As the port says: by EVALSHA; a server that forgot the script gets its source."""
        reply = ScriptFuture(loop=self._link._loop)
        reply.source_command = lambda: pack(("EVAL", self.source, len(keys), *keys, *args))
        self._link._send(pack(("EVALSHA", self._sha, len(keys), *keys, *args)), reply)
        return reply if self._confirmations is None else self._confirmations.hold(reply)

    async def call(self, keys: Sequence[Part], args: Sequence[Part], *, timeout: float) -> Any:
        """As the port says."""
        return await within(timeout, self.send(keys, args))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's own text repeats the address
    return str(error) or "it does not answer"


def _passing(refusal: RedisError) -> bool:
    """Whether a refusal goes away by itself: the server still reads its data, or is not the primary yet."""
    return isinstance(refusal, RedisRefused) and refusal.code in ("LOADING", "MASTERDOWN", "BUSY", "READONLY")
