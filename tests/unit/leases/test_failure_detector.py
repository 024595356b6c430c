"""Whether anybody listens at an address, asked of a real machine."""

from __future__ import annotations

import socket
from threading import Event
from typing import Any

import pytest

from sharebroker_server.leases.failure_detector import PortProbe
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_address_without_a_listener_is_refused(host: str) -> None:
    probe, port = PortProbe(), free_port()

    async def refused() -> bool:
        return await probe.is_refused(f"{host}:{port}")

    await eventually(refused)  # a lookup may take longer than one try


async def test_frozen_process_is_not_refused() -> None:
    """Its machine accepts connections for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not await PortProbe().is_refused(f"127.0.0.1:{server.getsockname()[1]}")


async def test_unknown_host_is_not_refused() -> None:
    assert not await PortProbe().is_refused("nobody.invalid:9090")


async def test_slow_host_lookup_runs_once_and_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answered = list[str](), Event()
    known = socket.getaddrinfo("127.0.0.1", None, type=socket.SOCK_STREAM)

    def slow(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        answered.wait(60.0)
        return known

    probe, port = PortProbe(), free_port()
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert not await probe.is_refused(f"slow.invalid:{port}")
    assert not await probe.is_refused(f"slow.invalid:{port}")
    assert asked == ["slow.invalid"]
    answered.set()
    await eventually(lambda: not probe._lookups)
