"""TLS and SASL handshakes that clients do not finish."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Final

from tests.hostile import payloads

SASL_HANDSHAKE: Final = 17
AFTER_TLS: Final = ("silent after TLS", "half of SASL")
KINDS: Final = ("silent", "half a ClientHello", "ClientHello", "no TLS", *AFTER_TLS)
"""What a client sends before it sends nothing further."""

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@cache
def client_hello() -> bytes:
    """Returns the first message of a TLS client."""
    read, written = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(read, written, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return written.read()


def _bytes(kind: str) -> bytes:
    hello = client_hello()
    return {
        "half a ClientHello": hello[: len(hello) // 2],
        "ClientHello": hello,
        "no TLS": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
        "half of SASL": payloads.frame(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"),
    }.get(kind, b"")


def _trusting() -> ssl.SSLContext:
    """Returns the TLS of a client that accepts every certificate and speaks HTTP/2, like a gRPC client."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def begin(address: str, kind: str, number: int) -> list[Connected]:
    """Opens connections to a TLS listener and begins their handshakes, as far as `kind` says."""
    host, _, port = address.rpartition(":")
    context = _trusting() if kind in AFTER_TLS else None
    connections = []
    for _ in range(number):
        with contextlib.suppress(OSError):  # of a listener that has enough connections
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(_bytes(kind))
            connections.append((reader, writer))
    return connections


async def ended(connections: Iterable[Connected]) -> None:
    """Waits until the server has closed all connections, whatever it sent before."""
    try:
        for reader, _ in connections:
            with contextlib.suppress(OSError):
                while await reader.read(65_536):
                    pass
    finally:
        abort(connections)


def abort(connections: Iterable[Connected]) -> None:
    """Ends connections like a crash of their client."""
    for _, writer in connections:
        writer.transport.abort()
