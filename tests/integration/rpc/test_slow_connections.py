"""A server that needs many times the round trip of a loopback connection for the handshake is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from sharebroker.aio.connection import Connection
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import PeerConnector, Router
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.rpc.tls import Tls, TlsFiles
from tests.integration.rpc.harness import FAILURE, SERVICE, Leader, caught, register
from tests.integration.rpc.test_server import Owners
from tests.testkit.certificates import Authority
from tests.testkit.proxy import FaultProxy

TIMEOUT: Final = 20.0
DELAY: Final = 0.2
"""Seconds for each way: a connection takes two without TLS and six with it."""


@dataclass(frozen=True)
class Slow:
    """A server behind a slow network."""

    address: str
    tls: Tls | None
    authority: Path | None

    @property
    def client_address(self) -> str:
        """The address for the client library."""
        return self.address if self.authority is None else f"tls://{self.address}?ca={self.authority}"

    @property
    def connector(self) -> PeerConnector:
        """How the other processes of the cluster call the server."""
        return PeerConnector() if self.tls is None else PeerConnector(self.tls.channel)


@pytest.fixture(params=["without TLS", "with TLS"])
async def slow(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Slow]:
    tls, authority = None, None
    if request.param == "with TLS":
        issuer = Authority.make(tmp_path / "tls")
        made, authority = issuer.issue("broker", "127.0.0.1"), issuer.file
        tls = Tls(TlsFiles(made.certificate, made.key, authority))
    server = GrpcServer(tls=tls)
    port = server.bind("127.0.0.1:0")
    server.add(Service(SERVICE, Leader(), register))
    await server.start()
    async with FaultProxy(port) as proxy:
        proxy.delay = DELAY
        yield Slow(f"127.0.0.1:{proxy.port}", tls, authority)
    await server.stop(0)


async def test_another_process_of_the_cluster_reaches_a_slow_server(slow: Slow) -> None:
    member = ClusterMember("2/1", 2, frozenset({"share-partition-leader"}), slow.address)
    router = Router(Owners(member), "1/1", connector=slow.connector)
    stub: Any = (await router.leader("T", 0)).stub
    assert (await caught(stub.Produce(pb.ProduceRequest(), timeout=TIMEOUT))).code is FAILURE.code
    await router.close()


async def test_client_library_reaches_a_slow_server(slow: Slow) -> None:
    """The server does not serve this method, which the client learns only from the server."""
    connection = Connection(slow.client_address)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await connection.admin.Metadata(admin.MetadataRequest(), timeout=TIMEOUT)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
    await connection.close()
