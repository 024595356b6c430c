"""A pipelined link to one Redis server, which reconnects after a failure.

Redis replies in order, so one connection carries the commands of a whole process. hiredis packs and parses
them, and commands of one event-loop turn share a write; a pipelined command costs about two microseconds.

A new connection is used only after the greeting succeeded: log in, read INFO, load the scripts. INFO shows
whether the server is a supported, writable primary and whether its incarnation changed. A changed incarnation
increases `server_incarnation` and runs the callbacks, because acknowledged writes may be missing.

Commands of one event-loop turn leave in one write. There is no timer per command: one watchdog per connection
aborts it when commands are in flight and no byte has arrived for `stall` seconds.

When a connection closes, the position in the queue decides between two errors. A command still in `_queue`
was surely not sent: RedisUnavailable. A command that was written may have been executed: RedisOutcomeUnknown.
The recovery of every log depends on this difference.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final, cast

import hiredis
import structlog
from typing_extensions import override

from sharebroker_server.aio import doubling
from sharebroker_server.redis_link.port import (
    Link,
    Part,
    RedisError,
    RedisInCluster,
    RedisMisconfigured,
    RedisOutcomeUnknown,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    Script,
    pass_on,
)
from sharebroker_server.redis_link.sentinel import Locator
from sharebroker_server.redis_link.server import ServerInfo, Target

NOTHING: Final = object()

pack: Final = cast("Callable[[tuple[bytes | str | int, ...]], bytes]", hiredis.pack_command)

DEMOTED: Final = frozenset({"READONLY", "MASTERDOWN"})
"""Error codes of a server that became a replica; the second one has no primary."""


class ScriptFuture(asyncio.Future[Any]):
    """Reply to an EVALSHA; `source_command` packs the EVAL for a server that lacks the script."""

    __slots__ = ("source_command",)

    source_command: Callable[[], bytes]


class RedisConnection(asyncio.Protocol):
    """Protocol object of one connection; not reusable after the connection closed.

    `limit` bounds the bytes that wait to be sent, `stall` (seconds) the silence while commands are in flight.
    """

    def __init__(self, limit: int, stall: float, on_closed: Callable[[RedisConnection], None]) -> None:
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._stall = stall
        self._on_closed = on_closed
        self._reader = hiredis.Reader(replyError=RedisRefused.from_reply, notEnoughData=NOTHING)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._queue: list[bytes] = []
        self._queued = 0
        self._full = False
        self._last_received = 0.0
        self._watchdog: asyncio.TimerHandle | None = None

    def send(self, command: bytes, reply: asyncio.Future[Any]) -> None:
        """Queues a packed command; `reply` receives the result, or RedisUnavailable at once."""
        if self._transport is None:
            reply.set_exception(RedisUnavailable("the connection to Redis is closed"))
            return
        if self._full or (self._queue and self._queued + len(command) > self._limit):
            reply.set_exception(
                RedisUnavailable(f"the send queue to Redis is full: more than {self._limit} bytes")
            )
            return
        if not self._waiting:
            self._last_received = self._loop.time()  # silence counts only while a reply is awaited
        if not self._queue:
            self._loop.call_soon(self._flush)
        self._queue.append(command)
        self._queued += len(command)
        self._waiting.append(reply)

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limit)

    @override
    def pause_writing(self) -> None:
        self._full = True

    @override
    def resume_writing(self) -> None:
        self._full = False

    @override
    def data_received(self, data: bytes) -> None:
        self._last_received = self._loop.time()
        self._reader.feed(data)
        gets, waiting = self._reader.gets, self._waiting
        try:
            while (reply := gets()) is not NOTHING:
                future = waiting.popleft()
                if reply.__class__ is RedisRefused:
                    self._refuse(future, reply)
                elif not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):
            self.abort()  # not Redis, or replies without commands: no later reply can be trusted

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._watchdog is not None:
            self._watchdog.cancel()
        unsent = len(self._queue)
        self._queue.clear()
        sent = len(self._waiting) - unsent
        for index, future in enumerate(self._waiting):
            if not future.done():
                future.set_exception(
                    RedisOutcomeUnknown("the connection to Redis closed before the reply arrived")
                    if index < sent
                    else RedisUnavailable("the connection to Redis closed before the command was sent")
                )
        self._waiting.clear()
        self.closed.set()
        self._on_closed(self)

    def _flush(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(self._queue))
        self._queue.clear()
        self._queued = 0
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(self._stall, self._watch)

    def _watch(self) -> None:
        """Aborts a silent connection; stops when no reply is awaited."""
        self._watchdog = None
        if not self._waiting:
            return
        remaining = self._last_received + self._stall - self._loop.time()
        if remaining <= 0:
            self.abort()
        else:
            self._watchdog = self._loop.call_later(remaining, self._watch)

    def _refuse(self, future: asyncio.Future[Any], refusal: RedisRefused) -> None:
        if refusal.code in DEMOTED and self._transport is not None:
            self._loop.call_soon(self.abort)  # the address may lead to the new primary now
        if future.done():
            return
        if refusal.code == "NOSCRIPT" and isinstance(future, ScriptFuture):
            self.send(future.source_command(), future)
        else:
            future.set_exception(refusal)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The number of replicas that must have a write, and the seconds to wait for them."""

    count: int
    timeout: float


class Confirmations:
    """Delays the replies to writes until replicas have the writes (WAIT); `send` sends to the primary.

    WAIT covers all earlier writes of its connection, so one WAIT is in flight at a time; writes that arrive
    meanwhile share the next. WAIT blocks its connection, so replicated writes use a connection of their own.
    """

    def __init__(self, send: Callable[..., asyncio.Future[Any]], replicas: Replicas) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._replicas = replicas
        self._pending: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = []
        self._in_flight = False

    def hold(self, reply: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Returns the reply to a write once replicas have it, else RedisOutcomeUnknown."""
        held: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append((reply, held))
        if not self._in_flight:
            self._in_flight = True
            self._loop.call_soon(self._wait)
        return held

    def _wait(self) -> None:
        group, self._pending = self._pending, []
        confirmed = self._send("WAIT", self._replicas.count, round(self._replicas.timeout * 1000))
        confirmed.add_done_callback(lambda done: self._confirmed(group, done))

    def _confirmed(
        self, group: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]], confirmed: asyncio.Future[Any]
    ) -> None:
        shortage = self._shortage(confirmed)
        for reply, held in group:
            if not reply.done():  # the server lacked the script; the EVAL follows the WAIT
                self._pending.append((reply, held))
            else:
                pass_on(reply, reply.exception() or shortage, held)
        self._in_flight = bool(self._pending)
        if self._in_flight:
            self._wait()

    def _shortage(self, confirmed: asyncio.Future[Any]) -> RedisError | None:
        if confirmed.exception() is not None:
            return RedisOutcomeUnknown(f"the replicas did not confirm the write: {confirmed.exception()}")
        if confirmed.result() >= self._replicas.count:
            return None
        return RedisOutcomeUnknown(
            f"{confirmed.result()} of {self._replicas.count} replicas confirmed the write "
            f"within {self._replicas.timeout} s"
        )


_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds of a link. Times are seconds.

    `queue_bytes`: approximate limit of bytes that wait to be sent. `stall`: silence after which a connection
    with commands in flight is closed. `attempt`: limit of one connection attempt. `backoff` to `backoff_max`:
    pause between attempts. `replicas`: replicas that must have the writes of a replicated script before it
    returns. `in_cluster`: the server may be a node of a cluster. `evicting`: accept a server that may evict
    our keys; only diagnostic tools set it.
    """

    queue_bytes: int = 64 * 1024 * 1024
    stall: float = 5.0
    attempt: float = 3.0
    backoff: float = 0.05
    backoff_max: float = 1.0
    replicas: Replicas | None = None
    in_cluster: bool = False
    evicting: bool = False


class RedisLink(Link):
    """Link to one Redis or Valkey server.

    Create it with `connect`, or construct it and call `begin` to connect in the background.
    """

    server_incarnation = 0

    def __init__(self, locator: Locator, settings: LinkSettings) -> None:
        self.server = ServerInfo("redis", "0")
        self.on_new_server: list[Callable[[], None]] = []
        self._locator = locator
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._connection: RedisConnection | None = None
        self._up = asyncio.Event()
        self.why_down = "it does not respond"
        self._scripts: list[LinkScript] = []
        self._confirmations = Confirmations(self.send, settings.replicas) if settings.replicas else None
        self._reconnecting: asyncio.Task[None] | None = None
        self.closed = False

    @classmethod
    async def connect(
        cls, locator: Locator | str, *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> RedisLink:
        """Connects to a located server or to a URL, with retries for `timeout` seconds.

        Raises RedisUnavailable after that time. Raises RedisUrlInvalid, RedisInCluster, RedisTooOld,
        RedisMisconfigured, RedisPrimaryUnknown and RedisRefused (a wrong password) at once.
        """
        located = Target.parse(locator) if isinstance(locator, str) else locator
        link = cls(located, settings or LinkSettings())
        try:
            async with asyncio.timeout(timeout):
                await link._establish(retry_refused=False)
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {link._locator}: {link.why_down}") from None
        return link

    @override
    @property
    def connected(self) -> bool:
        return self._connection is not None

    @override
    @property
    def nodes(self) -> Sequence[RedisLink]:
        return [self]

    def begin(self) -> None:
        """Connects in the background, without a time limit."""
        self._reconnecting = self._loop.create_task(self._reconnect())

    @override
    async def ready(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._up.wait()
        except TimeoutError:
            raise RedisUnavailable(f"no Redis at {self._locator}: {self.why_down}") from None

    @override
    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._send(pack((command, *parts)), reply)
        return reply

    @override
    def script(self, source: str, *, replicated: bool = False) -> LinkScript:
        script = LinkScript(self, source, self._confirmations if replicated else None)
        self._scripts.append(script)
        return script

    @override
    async def close(self) -> None:
        self.closed = True
        self.why_down = "the link was closed"
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if self._connection is not None:
            connection = self._connection
            connection.abort()
            await connection.closed.wait()

    def _send(self, command: bytes, reply: asyncio.Future[Any]) -> None:
        if self._connection is None:
            reply.set_exception(RedisUnavailable(f"Redis at {self._locator} is unavailable: {self.why_down}"))
        else:
            self._connection.send(command, reply)

    async def _establish(self, *, retry_refused: bool) -> None:
        """Retries until connected. Raises the errors that a retry does not fix unless `retry_refused`."""
        pauses = doubling(self._settings.backoff, self._settings.backoff_max)
        while True:
            try:
                await self._attempt()
            except (
                RedisTooOld,
                RedisMisconfigured,
                RedisInCluster,
                RedisPrimaryUnknown,
                RedisRefused,
            ) as refusal:
                if not retry_refused and not _is_temporary(refusal):
                    raise
                self.why_down = str(refusal)
            except (OSError, RedisError) as error:  # TimeoutError is an OSError
                self.why_down = _reason(error)
            else:
                return
            await asyncio.sleep(next(pauses))

    async def _attempt(self) -> None:
        target = await self._locator.find()
        connection = RedisConnection(self._settings.queue_bytes, self._settings.stall, self._on_closed)
        try:
            async with asyncio.timeout(self._settings.attempt):
                await target.open(lambda: connection)
                server = await self._greet(connection, target)
        except BaseException:
            connection.abort()
            raise
        former, self.server, self._connection = self.server, server, connection
        if former.incarnation not in ("", server.incarnation):
            self.server_incarnation += 1
            for callback in self.on_new_server:
                self._loop.call_soon(callback)
        self._up.set()

    async def _greet(self, connection: RedisConnection, target: Target) -> ServerInfo:
        """Logs in, reads INFO and loads the scripts in one round trip."""
        # A server that is still loading its data responds to INFO, but not to PING.
        commands = [*target.greeting(), ("INFO", *ServerInfo.SECTIONS), ("PING",)]
        commands += [("SCRIPT", "LOAD", script.source) for script in self._scripts]
        replies: list[asyncio.Future[Any]] = [self._loop.create_future() for _ in commands]
        for command, reply in zip(commands, replies, strict=True):
            connection.send(pack(command), reply)
        try:
            await asyncio.wait(replies)
        finally:
            for reply in replies:
                reply.cancel()
        failures = [error for reply in replies if (error := reply.exception()) is not None]
        if failures:
            raise failures[0]
        server = ServerInfo.from_info(replies[len(target.greeting())].result())
        server.require_supported()
        server.require_usable(in_cluster=self._settings.in_cluster, evicting=self._settings.evicting)
        return server

    def _on_closed(self, connection: RedisConnection) -> None:
        if connection is not self._connection:
            return  # a failed attempt; `_establish` retries it
        self._connection = None
        self._up.clear()
        if self.closed:
            return
        self.why_down = "the connection broke"
        _log.warning("Redis connection lost", address=str(self._locator))
        self._reconnecting = self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        await self._establish(retry_refused=True)
        _log.info("Redis reconnected", address=str(self._locator))


class LinkScript(Script):
    """Lua script of one server; create it with `RedisLink.script`."""

    __slots__ = ("_confirmations", "_link", "_sha", "source")

    def __init__(self, link: RedisLink, source: str, confirmations: Confirmations | None) -> None:
        self.source = source
        self._confirmations = confirmations
        self._link = link
        self._sha = sha1(source.encode(), usedforsecurity=False).hexdigest()

    @override
    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        # EVALSHA; `RedisConnection` sends the source to a server that lacks the script.
        reply = ScriptFuture(loop=self._link._loop)
        reply.source_command = lambda: pack(("EVAL", self.source, len(keys), *keys, *args))
        self._link._send(pack(("EVALSHA", self._sha, len(keys), *keys, *args)), reply)
        return reply if self._confirmations is None else self._confirmations.hold(reply)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's own text repeats the address
    return str(error) or "it does not respond"


def _is_temporary(refusal: RedisError) -> bool:
    """Returns whether a retry may succeed: the server is loading its data, or is not the primary yet."""
    return isinstance(refusal, RedisRefused) and refusal.code in ("LOADING", "MASTERDOWN", "BUSY", "READONLY")
