"""One connection to Redis: sends commands and matches replies, which arrive in order.

Commands of one event-loop turn leave in one write. There is no timer per command: one watchdog per connection
aborts it when commands are in flight and no byte has arrived for `stall` seconds.

When the connection closes, the position in the queue decides between two errors. A command still in `_queue`
was surely not sent: RedisUnavailable. A command that was written may have been executed: RedisOutcomeUnknown.
The recovery of every log depends on this difference.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import hiredis
from typing_extensions import override

from sharebroker_server.redis_link.port import RedisOutcomeUnknown, RedisRefused, RedisUnavailable

NOTHING: Final = object()

pack: Final = cast("Callable[[tuple[bytes | str | int, ...]], bytes]", hiredis.pack_command)

DEMOTED: Final = frozenset({"READONLY", "MASTERDOWN"})
"""Error codes of a server that became a replica; the second one has no primary."""


class ScriptFuture(asyncio.Future[Any]):
    """Reply to an EVALSHA; `source_command` packs the EVAL for a server that lacks the script."""

    __slots__ = ("source_command",)

    source_command: Callable[[], bytes]


class Connection(asyncio.Protocol):
    """Protocol object of one connection; not reusable after the connection closed.

    `limit` bounds the bytes that wait to be sent, `stall` (seconds) the silence while commands are in flight.
    """

    def __init__(self, limit: int, stall: float, on_closed: Callable[[Connection], None]) -> None:
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
