"""Whether anybody listens at an address, asked of a real machine."""

from __future__ import annotations

import socket
from threading import Event
from typing import Any

import pytest

from sharebroker_server.leases.failure_detector import Doors
from sharebroker_server.testkit.servers import free_port
from sharebroker_server.testkit.waiting import eventually


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_closed_port_counts_as_refused(host: str) -> None:
    doors, port = Doors(), free_port()

    async def refused() -> bool:
        return await doors.refused(f"{host}:{port}")

    await eventually(refused)  # a lookup may take longer than one try


async def test_frozen_process_does_not_count_as_refused() -> None:
    """Its machine takes connections for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not await Doors().refused(f"127.0.0.1:{server.getsockname()[1]}")


async def test_unknown_host_does_not_count_as_refused() -> None:
    assert not await Doors().refused("nobody.invalid:9090")


async def test_slow_lookup_is_shared_and_bounded_by_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answered = list[str](), Event()
    known = socket.getaddrinfo("127.0.0.1", None, type=socket.SOCK_STREAM)

    def slow(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        answered.wait(60.0)
        return known

    doors, port = Doors(), free_port()
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert not await doors.refused(f"slow.invalid:{port}")
    assert not await doors.refused(f"slow.invalid:{port}")
    assert asked == ["slow.invalid"]
    answered.set()
    await eventually(lambda: not doors._lookups)
