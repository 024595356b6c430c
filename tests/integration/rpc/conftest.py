"""The servicer on a real server, called with a connection and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.rpc.stubs import LocalStub, RemoteStub
from tests.integration.rpc.harness import SERVICE, Leader, register


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = GrpcServer()
    port = server.bind("127.0.0.1:0")
    server.add(Service(SERVICE, Leader(), register))
    await server.start()
    await server.ready()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest.fixture(params=["remote", "local"])
async def stub(request: pytest.FixtureRequest, address: str) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        if request.param == "local":
            yield LocalStub(Leader())
        else:
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
            yield RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
