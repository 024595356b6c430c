"""A raw HTTP/2 client that begins gRPC calls and does not complete their messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_ACK: Final = 1
END_HEADERS: Final = 4
_INITIAL_WINDOW: Final = 65_535
LARGEST_FRAME: Final = 16_384


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Returns a frame (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def literal(name: str, value: str) -> bytes:
    """Returns a header field without indexing (RFC 7541, section 6.2.2); lengths below 127."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def request_headers(method: str, encoding: str = "identity") -> bytes:
    """Returns the header block of a gRPC call."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-encoding": encoding,
    }
    return b"".join(literal(name, value) for name, value in fields.items())


class Connection:
    """One connection; it obeys the flow control of the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._windows: Counter[int] = Counter()
        self._windows[0] = _INITIAL_WINDOW
        self._initial = _INITIAL_WINDOW
        self._changed = asyncio.Event()

    async def read(self) -> None:
        """Reads frames until the connection ends."""
        while True:
            head = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(head[:3]))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
            if kind == WINDOW_UPDATE:
                self._windows[stream] += int.from_bytes(payload)
                self._changed.set()
            elif kind == SETTINGS and not flags:
                self._writer.write(frame(SETTINGS, _ACK, 0))
            elif kind == PING and not flags:
                self._writer.write(frame(PING, _ACK, 0, payload))

    async def begin(self, stream: int, method: str, size: int) -> None:
        """Begins a call whose message has `size` bytes, and sends all but the last byte."""
        self._open(stream, request_headers(method))
        await self._send(stream, b"\0" + size.to_bytes(4))
        sent = 1
        while sent < size:
            sent += await self._send(stream, bytes(min(size - sent, LARGEST_FRAME)))

    async def compressed(self, stream: int, method: str, message: bytes) -> None:
        """Sends a message that is compressed with gzip already."""
        self._open(stream, request_headers(method, "gzip"))
        data = b"\1" + len(message).to_bytes(4) + message
        while data:
            data = data[await self._send(stream, data[:LARGEST_FRAME]) :]

    async def call(self, stream: int, method: str, data: bytes) -> None:
        """Begins a call and sends a message with its prefix."""
        self._open(stream, request_headers(method))
        await self._send(stream, data)

    def _open(self, stream: int, headers: bytes) -> None:
        self._windows[stream] += self._initial
        self._writer.write(frame(HEADERS, END_HEADERS, stream, headers))

    async def _send(self, stream: int, data: bytes) -> int:
        while not (allowed := min(len(data), self._windows[0], self._windows[stream])):
            self._changed.clear()
            await self._changed.wait()
        self._windows[0] -= allowed
        self._windows[stream] -= allowed
        self._writer.write(frame(DATA, 0, stream, data[:allowed]))
        await self._writer.drain()
        return allowed


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    """Provides a connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(PREFACE + frame(SETTINGS, 0, 0))
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def unfinished_calls(address: str, methods: Iterable[str], size: int) -> None:
    """Begins calls on one connection, and sends all but the last byte of their messages of `size` bytes.

    Ends when the server closes the connection.
    """
    async with connected(address) as connection, asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.read())
        for number, method in enumerate(methods):
            tasks.create_task(connection.begin(2 * number + 1, method, size))


async def compressed_calls(address: str, method: str, message: bytes, calls: int) -> None:
    """Makes calls on one connection, with a message that is compressed. Ends as `unfinished_calls`."""
    async with connected(address) as connection, asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.read())
        for number in range(calls):
            await connection.compressed(2 * number + 1, method, message)


async def unread_calls(address: str, method: str, messages: Iterable[bytes]) -> None:
    """Makes calls on one connection that stay open, and permits the server 64 KiB of responses in all.

    Ends as `unfinished_calls`.
    """
    async with connected(address) as connection, asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.read())
        for number, message in enumerate(messages):
            await connection.call(2 * number + 1, method, b"\0" + len(message).to_bytes(4) + message)
