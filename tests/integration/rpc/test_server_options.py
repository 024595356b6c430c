"""Limits of a gRPC server that its options set."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.rpc import server_options
from sharebroker_server.rpc.server import GrpcServer

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The preface of HTTP/2 and empty settings."""


async def is_served(reader: asyncio.StreamReader) -> bool:
    """Returns whether the server sends its settings. It closes a connection that it does not serve."""
    try:
        return bool(await asyncio.wait_for(reader.read(9), 20.0))
    except ConnectionError:
        return False


async def test_connections_use_half_of_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_options, "connections_permitted", lambda: 10)
    server = GrpcServer()
    port = server.bind("127.0.0.1:0")
    await server.start()
    writers = []
    try:
        served = []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(GREETING)
            served.append(await is_served(reader))
        assert served == [True] * 5 + [False] * 3
    finally:
        for writer in writers:
            writer.close()
        await server.stop(0)
