"""Whether anybody listens at an address, asked of a real machine."""

from __future__ import annotations

import socket

from libs.leases.deaths import refused
from libs.testkit.servers import free_port


async def test_an_address_where_nobody_listens_is_refused() -> None:
    assert await refused(f"127.0.0.1:{free_port()}")


async def test_a_process_that_stands_still_is_not_refused() -> None:
    """Its machine takes connections for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not await refused(f"127.0.0.1:{server.getsockname()[1]}")


async def test_a_machine_that_is_not_known_does_not_refuse() -> None:
    assert not await refused("nobody.invalid:9090")
