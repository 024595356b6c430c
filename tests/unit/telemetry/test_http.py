from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.telemetry import http as module
from sharebroker_server.telemetry.http import (
    INCOMPLETE_GRACE,
    MAX_CONNECTIONS,
    Health,
    HttpServer,
    Reply,
    health_page,
)
from tests.testkit.waiting import eventually


async def page() -> Reply:
    return Reply(200, b"well\n")


async def broken() -> Reply:
    raise RuntimeError("no")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    made = HttpServer({"/page": page, "/broken": broken})
    yield made
    await made.stop()


@pytest.fixture
async def port(server: HttpServer) -> int:
    return await server.start("127.0.0.1", 0)


async def ask(port: int, request: bytes) -> bytes:
    """Returns all bytes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /page HTTP/1.1", b"200 OK"),
        (b"GET /page?of=interest HTTP/1.0", b"200 OK"),
        (b"GET /other HTTP/1.1", b"404 Not Found"),
        (b"POST /page HTTP/1.1", b"405 Method Not Allowed"),
        (b"nonsense", b"400 Bad Request"),
        (b"GET /\xff HTTP/1.1", b"400 Bad Request"),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1", b"400 Bad Request"),
    ],
)
async def test_request_line_determines_the_status(port: int, request_line: bytes, status: bytes) -> None:
    response = await ask(port, request_line + b"\r\nHost: here\r\n\r\n")
    # Unread bytes of the request may have reset the connection.
    assert response.startswith(b"HTTP/1.1 " + status) or (len(request_line) > 1000 and not response)


async def test_content_length_matches_the_body(port: int) -> None:
    head, _, body = (await ask(port, b"GET /page HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
    assert body == b"well\n"
    assert b"Content-Length: 5" in head
    assert (await ask(port, b"HEAD /page HTTP/1.1\r\n\r\n")) == head + b"\r\n\r\n"


async def test_failing_page_does_not_affect_others(port: int) -> None:
    with capture_logs() as logs:
        assert b" 500 " in await ask(port, b"GET /broken HTTP/1.1\r\n\r\n")
    assert [entry["event"] for entry in logs] == ["page failed"]
    assert b" 200 " in await ask(port, b"GET /page HTTP/1.1\r\n\r\n")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the connection timeout, so that a slow machine closes no connection."""
    monkeypatch.setattr(module, "CONNECTION_TIMEOUT", 600.0)


@pytest.mark.usefixtures("patient")
async def test_many_concurrent_clients_are_served(port: int) -> None:
    responses = await asyncio.gather(*(ask(port, b"GET /page HTTP/1.1\r\n\r\n") for _ in range(100)))
    assert all(b" 200 " in response for response in responses)


@pytest.mark.usefixtures("patient")
async def test_slow_connections_do_not_block_others(server: HttpServer, port: int) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS + 5)]
    assert b" 200 " in await ask(port, b"GET /page HTTP/1.1\r\n\r\n")
    assert len(server._serving) <= MAX_CONNECTIONS
    async with asyncio.timeout(30):
        for reader, _ in silent[:5]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
    for _, writer in silent:
        writer.transport.abort()


async def test_idle_connections_are_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_TIMEOUT", 0.05)
    assert await ask(port, b"GET /page HTTP/1.1\r\n") == b""


async def test_stop_closes_open_connections(server: HttpServer, port: int) -> None:
    waiting = asyncio.create_task(ask(port, b"GET"))
    await eventually(lambda: server._serving, 30)
    await server.stop()
    assert await waiting == b""


async def test_a_used_port_is_reported(port: int) -> None:
    with pytest.raises(KafkaError, match=f"Cannot listen on 127.0.0.1:{port}: "):
        await HttpServer({}).start("127.0.0.1", port)


async def test_stop_before_start_does_not_raise() -> None:
    await HttpServer({}).stop()


class Clock:
    """A clock set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_starting_broker_is_only_live() -> None:
    health = Health()
    assert await health.is_live() == ""
    assert await health.is_started() == await health.is_ready() == "the broker is starting"
    health.started()
    assert await health.is_started() == await health.is_ready() == ""


async def test_a_stopping_broker_is_not_ready() -> None:
    health = Health()
    health.started()
    health.stop()
    assert await health.is_ready() == "the broker is stopping"
    assert await health.is_started() == await health.is_live() == ""


async def test_a_failed_check_makes_the_broker_not_ready() -> None:
    health, reasons = Health(), ["no Redis"]

    async def check() -> str:
        return reasons[0]

    health.started()
    health.checks.append(check)
    assert await health.is_ready() == "no Redis"
    reasons[0] = ""
    assert await health.is_ready() == ""


async def test_readiness_tolerates_short_outages_after_the_first_success() -> None:
    clock, missing = Clock(), ["a", "b", "c", "d"]
    health = Health(clock)
    health.started()
    health.missing.append(lambda: missing)
    assert await health.is_ready() == "4 resources of this broker are not available yet: a, b, c"
    missing.clear()
    assert await health.is_ready() == ""
    missing.append("e")
    clock.now += INCOMPLETE_GRACE - 1
    assert await health.is_ready() == ""
    clock.now += 1
    assert await health.is_ready() == "1 resources of this broker are not available yet: e"


async def test_health_pages_return_ok_or_the_reason() -> None:
    health = Health()
    assert await health_page(health.is_live)() == (200, b"ok\n", "text/plain; charset=utf-8")
    assert (await health_page(health.is_ready)())[:2] == (503, b"the broker is starting\n")
