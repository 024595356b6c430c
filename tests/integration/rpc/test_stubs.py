"""Calls to a servicer in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import PeerConnector, Router
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.rpc.stubs import NOT_SENT, RemoteStub
from sharebroker_server.security.access import ClusterAccess
from sharebroker_server.security.credentials import ClusterCredentials, SecretFile
from tests.integration.rpc.harness import FAILURE, SERVICE, Leader, caught, echo, register
from tests.integration.rpc.test_server import Owners


async def test_stream_carries_messages_both_ways(stub: Any) -> None:
    assert await echo(stub, 1, 2, 3) == [1, 2, 3]


async def test_an_unreachable_server_is_a_retriable_error() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:9") as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        error = await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
    assert error.retriable
    assert NOT_SENT in error.metadata
    assert "127.0.0.1:9" in error.message


@pytest.fixture
async def credentials(tmp_path: Path) -> AsyncIterator[ClusterCredentials]:
    file = tmp_path / "secret"
    file.write_bytes(b"the secret of all processes")
    made = ClusterCredentials()
    await made.start(SecretFile(file), "1/1")
    yield made
    await made.stop()


@pytest.fixture
async def guarded(credentials: ClusterCredentials) -> AsyncIterator[ClusterMember]:
    """A process that checks its callers."""
    access = ClusterAccess(credentials)
    server = GrpcServer(access=access)
    port = server.bind("127.0.0.1:0")
    server.add(Service(SERVICE, Leader(), register))
    await server.start()
    yield ClusterMember("2/1", 2, frozenset({"share-partition-leader"}), f"127.0.0.1:{port}")
    await server.stop(0)


async def test_router_identifies_its_process_on_calls_and_streams(
    guarded: ClusterMember, credentials: ClusterCredentials
) -> None:
    router = Router(Owners(guarded), "1/1", connector=PeerConnector(identify=credentials.metadata))
    stub: Any = (await router.leader("T", 0)).stub
    assert (await caught(stub.Produce(pb.ProduceRequest(), timeout=5))).code is FAILURE.code
    assert await echo(stub, 1, 2) == [1, 2]
    await router.close()


async def test_denial_by_a_peer_is_a_retriable_error(guarded: ClusterMember) -> None:
    router = Router(Owners(guarded), "1/1")
    stub: Any = (await router.leader("T", 0)).stub
    for call in (stub.Produce(pb.ProduceRequest(), timeout=5), echo(stub, 1)):
        error = await caught(call)
        assert (error.code, error.retriable) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
        assert NOT_SENT in error.metadata
    await router.close()
