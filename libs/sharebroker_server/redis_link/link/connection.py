"""One connection to Redis: commands out, replies back in order.

All commands of one turn of the event loop leave in one write. There is no timer a command: one watchdog a
connection breaks it when commands wait and nothing has come for `stall` seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import hiredis

from sharebroker_server.redis_link.link.errors import RedisOutcomeUnknown, RedisRefused, RedisUnavailable

NOTHING: Final = object()

pack: Final = cast("Callable[[tuple[bytes | str | int, ...]], bytes]", hiredis.pack_command)

DEMOTED: Final = frozenset({"READONLY", "MASTERDOWN"})
"""What a server answers that is a replica by now, the second one without a primary."""


class ScriptFuture(asyncio.Future[Any]):
    """The reply to an EVALSHA; `source_command` packs the EVAL for a server that lacks the script."""

    __slots__ = ("source_command",)

    source_command: Callable[[], bytes]


class Wire(asyncio.Protocol):
    """The protocol object of one connection; of no use once the connection is lost.

    `limit` bounds the bytes that wait to be sent, `stall` (seconds) the silence while commands are in flight.
    """

    def __init__(self, limit: int, stall: float, on_lost: Callable[[Wire], None]) -> None:
        self.lost = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._stall = stall
        self._on_lost = on_lost
        self._reader = hiredis.Reader(replyError=RedisRefused.from_reply, notEnoughData=NOTHING)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._queue: list[bytes] = []
        self._queued = 0
        self._full = False
        self._last_heard = 0.0
        self._watchdog: asyncio.TimerHandle | None = None

    def send(self, command: bytes, reply: asyncio.Future[Any]) -> None:
        """Queue a packed command; `reply` gets the answer, or at once RedisUnavailable."""
        if self._transport is None:
            reply.set_exception(RedisUnavailable("the connection to Redis is closed"))
            return
        if self._full or (self._queue and self._queued + len(command) > self._limit):
            reply.set_exception(RedisUnavailable(f"more than {self._limit} bytes wait for Redis"))
            return
        if not self._waiting:
            self._last_heard = self._loop.time()  # silence before there was a question is none
        if not self._queue:
            self._loop.call_soon(self._flush)
        self._queue.append(command)
        self._queued += len(command)
        self._waiting.append(reply)

    def abort(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limit)

    def pause_writing(self) -> None:
        """Called by asyncio when more than `limit` bytes wait in the transport."""
        self._full = True

    def resume_writing(self) -> None:
        """Called by asyncio when the transport has room again."""
        self._full = False

    def data_received(self, data: bytes) -> None:
        """Called by asyncio: hand each reply to the command it belongs to."""
        self._last_heard = self._loop.time()
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
            self.abort()  # not Redis, or out of step with it: no later reply can be trusted

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: what was still queued was surely not done, the rest may have been."""
        self._transport = None
        if self._watchdog is not None:
            self._watchdog.cancel()
        unsent = len(self._queue)
        self._queue.clear()
        sent = len(self._waiting) - unsent
        for index, future in enumerate(self._waiting):
            if not future.done():
                future.set_exception(
                    RedisOutcomeUnknown("the connection to Redis broke before the answer came")
                    if index < sent
                    else RedisUnavailable("the connection to Redis broke before the command was sent")
                )
        self._waiting.clear()
        self.lost.set()
        self._on_lost(self)

    def _flush(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(self._queue))
        self._queue.clear()
        self._queued = 0
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(self._stall, self._watch)

    def _watch(self) -> None:
        """Break a silent connection; sleep on while replies come, and for good when none are awaited."""
        self._watchdog = None
        if not self._waiting:
            return
        left = self._last_heard + self._stall - self._loop.time()
        if left <= 0:
            self.abort()
        else:
            self._watchdog = self._loop.call_later(left, self._watch)

    def _refuse(self, future: asyncio.Future[Any], refusal: RedisRefused) -> None:
        if refusal.code in DEMOTED and self._transport is not None:
            self._loop.call_soon(self.abort)  # the address may lead to the new primary by now
        if future.done():
            return
        if refusal.code == "NOSCRIPT" and isinstance(future, ScriptFuture):
            self.send(future.source_command(), future)
        else:
            future.set_exception(refusal)
