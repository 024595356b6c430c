"""TLS and SASL handshakes that are not finished end by a deadline and disturb no honest client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.handshakes import AFTER_TLS, KINDS, SASL_HANDSHAKE, abort, begin, ended
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.support.kafka_client import connected
from tests.testkit.brokers import one_process
from tests.testkit.secured import Secured, secured
from tests.testkit.waiting import until

pytestmark = [
    pytest.mark.xdist_group("hostile-bytes"),  # one attack at a time
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

NUMBER: Final = 100
"""Connections of each kind to each listener."""

DEADLINE: Final = 60.0
"""Seconds until all are closed. The server's limits are 10 s for TLS and 10 s for SASL."""

MEMORY: Final = 256 << 20
"""Bytes of the server. Measured: 160 MiB."""


MAX_CONNECTIONS: Final = 1000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    options = ("--fsync", "everysec", f"--set=max.connections={MAX_CONNECTIONS}")
    with secured(one_process, tmp_path_factory.mktemp("tls"), *options) as made:
        until(lambda: "first user created" in made.logs, DEADLINE)
        yield made


@pytest.mark.parametrize("kind", KINDS)
async def test_handshakes_that_clients_break_off_do_not_end_the_server(place: Secured, kind: str) -> None:
    """gRPC's threads create and release the state of many handshakes at the same time."""
    async with honest_client(place.address()) as honest:
        for address in (place.cluster.address, place.cluster.kafka):
            for number in range(2 if kind in AFTER_TLS else 10):
                connections = await begin(address, kind, NUMBER)
                await asyncio.sleep(0.05 * (number % 2))  # breaks off before and after the server has read
                abort(connections)
    assert not honest.failures
    (server,) = place.cluster.processes
    assert server.process is not None
    assert server.process.poll() is None


async def test_unfinished_handshakes_end_by_a_deadline(place: Secured) -> None:
    listeners = [(place.cluster.kafka, kind) for kind in KINDS]
    # A connection of a gRPC client may be silent after TLS: it has no calls yet.
    listeners += [(place.cluster.address, kind) for kind in KINDS if kind not in AFTER_TLS]
    async with honest_client(place.address()) as honest:
        crowds = await asyncio.gather(*(begin(*listener, NUMBER) for listener in listeners))
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*map(ended, crowds))
    assert not honest.failures
    assert peak_memory(place.cluster) < MEMORY


async def test_a_failed_handshake_does_not_count_as_a_connection(place: Secured) -> None:
    for _ in range(11):
        await ended(await begin(place.cluster.kafka, "no TLS", NUMBER))
    assert 11 * NUMBER > MAX_CONNECTIONS
    context = ssl.create_default_context(cafile=place.authority.file)
    async with connected(place.cluster.kafka, tls=context) as client:
        assert (await client.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")).error_code == 0
