"""The bound on the messages of all Consume streams that their clients have not read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

GRACE: Final = 10.0
"""Seconds after which a stream that is not read may be ended while other streams wait for memory."""

_UNREAD: Final = "The client did not read its stream while other streams waited for memory."


class UnreadMessages:
    """`limit` bytes for the unread messages of all Consume streams of a process.

    A stream reserves the bytes of a message before the message is built, and releases them when the client
    has read it. While the limit is reached, reservations wait. Those of the connection that holds the fewest
    bytes are next, and the last quarter is for connections that hold none. So one client delays others
    little, however many streams it has.

    While reservations wait, the streams that have gone longest without reading are ended, each after GRACE.
    A message larger than the limit is admitted when there is no other. `now` is in seconds.
    """

    def __init__(self, limit: int, now: Callable[[], float] = monotonic) -> None:
        self.bytes = 0
        """Bytes that are reserved."""
        self._limit = limit
        self._now = now
        self._streams: dict[UnreadOfStream, None] = {}
        self._connections: dict[str, _Connection] = {}
        self._waiting: dict[_Connection, None] = {}
        self._check: asyncio.TimerHandle | None = None

    def stream(self, connection: str, end: Callable[[KafkaError], None]) -> UnreadOfStream:
        """Returns the part of a stream of this connection; `end` ends the stream."""
        return UnreadOfStream(self, connection, end)

    @property
    def waiting(self) -> int:
        """The number of reservations that wait."""
        return sum(len(connection.waiting) for connection in self._waiting)

    async def _reserve(self, stream: UnreadOfStream, size: int) -> None:
        if self._reserve_now(stream, size):
            return
        connection = self._connection_of(stream)
        waiting = _Waiting(stream, size)
        connection.waiting.append(waiting)
        self._waiting[connection] = None
        self._admit()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if not waiting.granted.cancelled():
                self._release(stream, size)
            elif waiting in connection.waiting:
                connection.waiting.remove(waiting)
                self._forget_unused(connection)
                self._admit()
            raise

    def _reserve_now(self, stream: UnreadOfStream, size: int) -> bool:
        fits = not self._waiting and self._fits(size, self._connection_of(stream))
        if fits:
            self._hold(stream, size)
        return fits

    def _release(self, stream: UnreadOfStream, size: int) -> None:
        size = min(size, stream.bytes)  # nothing is left once the stream is closed
        if not size:
            return
        self.bytes -= size
        stream.bytes -= size
        connection = self._connection_of(stream)
        connection.bytes -= size
        self._forget_unused(connection)
        if not stream.bytes:
            del self._streams[stream]
        if self._waiting:
            self._admit()

    def _read(self, stream: UnreadOfStream, size: int) -> None:
        """A client has read a message: other streams have gone longer without reading."""
        if stream.bytes > size:
            del self._streams[stream]
            self._streams[stream] = None
            stream.since = self._now()
        self._release(stream, size)

    def _fits(self, size: int, connection: _Connection) -> bool:
        limit = self._limit * 3 // 4 if connection.bytes else self._limit
        return not self.bytes or self.bytes + size <= limit

    def _hold(self, stream: UnreadOfStream, size: int) -> None:
        if not size:
            return
        self.bytes += size
        if not stream.bytes:
            stream.since = self._now()
            self._streams[stream] = None
        stream.bytes += size
        self._connection_of(stream).bytes += size

    def _connection_of(self, stream: UnreadOfStream) -> _Connection:
        connection = self._connections.get(stream.connection)
        if connection is None:
            connection = self._connections[stream.connection] = _Connection(stream.connection)
        return connection

    def _forget_unused(self, connection: _Connection) -> None:
        if not connection.waiting:
            self._waiting.pop(connection, None)
            if not connection.bytes:
                self._connections.pop(connection.name, None)

    def _admit(self) -> None:
        """Grants the waiting reservations that fit; ends streams so that further ones will fit."""
        while self._waiting:
            connection = min(self._waiting, key=_bytes)
            waiting = connection.waiting[0]
            if waiting.granted.done():  # its task was cancelled
                connection.waiting.popleft()
            elif self._fits(waiting.size, connection):
                connection.waiting.popleft()
                self._hold(waiting.stream, waiting.size)
                waiting.granted.set_result(None)
            elif not self._end_longest_unread():
                return
            self._forget_unused(connection)

    def _end_longest_unread(self) -> bool:
        """Ends a stream that was not read for GRACE; returns False if there is none, and checks later."""
        stream = next(iter(self._streams))
        due = stream.since + GRACE - self._now()
        if due > 0:
            if self._check is None:
                self._check = asyncio.get_running_loop().call_later(due, self._checked)
            return False
        connection = self._connection_of(stream)
        self.bytes -= stream.bytes
        connection.bytes -= stream.bytes
        stream.bytes = 0
        del self._streams[stream]
        self._forget_unused(connection)
        _log.warning("stream ended", client=stream.connection, reason=_UNREAD)
        stream.end(KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _UNREAD))
        return True

    def _checked(self) -> None:
        self._check = None
        self._admit()


class UnreadOfStream:
    """The unread messages of one stream."""

    __slots__ = ("_all", "bytes", "connection", "end", "since", "total_read")

    def __init__(
        self, all_messages: UnreadMessages, connection: str, end: Callable[[KafkaError], None]
    ) -> None:
        self.connection = connection
        self.end = end
        self.bytes = 0
        self.since = 0.0
        """The time of the last read, or when there was nothing to read."""
        self.total_read = 0
        """The bytes that the client has read."""
        self._all = all_messages

    async def reserve(self, size: int) -> None:
        """Reserves the bytes of a message; waits while other messages use them."""
        await self._all._reserve(self, size)

    def reserve_now(self, size: int) -> bool:
        """Reserves the bytes of a message; returns False, and reserves nothing, if that has to wait."""
        return self._all._reserve_now(self, size)

    def resize(self, reserved: int, size: int) -> None:
        """Changes the bytes that are reserved for a message to its real size."""
        if size < reserved:
            self._all._release(self, reserved - size)
        else:
            self._all._hold(self, size - reserved)

    def read(self, size: int) -> None:
        """Releases the bytes of a message that the client has read."""
        self.total_read += size
        self._all._read(self, size)

    def close(self) -> None:
        """Releases all bytes."""
        self._all._release(self, self.bytes)


class _Connection:
    """The bytes and the waiting reservations of the streams of a connection."""

    __slots__ = ("bytes", "name", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes = 0
        self.waiting: deque[_Waiting] = deque()


def _bytes(connection: _Connection) -> int:
    return connection.bytes


class _Waiting:
    """A reservation that waits."""

    __slots__ = ("granted", "size", "stream")

    def __init__(self, stream: UnreadOfStream, size: int) -> None:
        self.stream = stream
        self.size = size
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
