"""A gateway on a real socket, with fakes behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from sharebroker_protocol.gateway.v1 import produce_pb2_grpc, share_pb2_grpc
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.services import services
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import Router
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.rpc.stubs import LocalStub
from tests.unit.gateway.fakes import Coordinator, Leader, OwnerLookup, catalog, member


class Gate:
    """Blocks callers until it is opened; `most` is the largest number that waited at once."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self.waiting = self.most = 0

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self._opened.wait()
        self.waiting -= 1


class Harness:
    """The gateway and its fakes. `leader` is in its process; `remote_leader` adds others."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.ownership = OwnerLookup(member(1, "127.0.0.1:1"))
        self.router = Router(self.ownership, "1/1")
        self.leader = Leader()
        self.coordinator = Coordinator()
        self.router.register_local(SharePartitionLeaderServiceStub, self.leader)
        self.router.register_local(GroupCoordinatorServiceStub, self.coordinator)
        config = BrokerConfig.of({"group.share.max.share.sessions": "2", "group.share.max.size": "2"})
        self.gateway = Gateway(self.router, catalog(), config)
        stack.push_async_callback(self.router.close)
        stack.push_async_callback(self.gateway.stop)

    async def open(self) -> None:
        address, _ = await self._serve(*services(self.gateway))
        channel = self.channel = grpc.aio.insecure_channel(address)
        self._stack.push_async_callback(channel.close)
        self.share: Any = share_pb2_grpc.ShareServiceStub(channel)
        self.produce: Any = produce_pb2_grpc.ProduceServiceStub(channel)

    def local_leader(self, node_id: int, partition: int) -> Leader:
        """Another leader, of this partition, that is called without a socket."""
        fake, there = Leader(), member(node_id, f"127.0.0.1:{node_id}")
        self.ownership.give(partition, there)
        self.router._stubs[SharePartitionLeaderServiceStub, there.address] = LocalStub(fake)  # type: ignore[assignment]
        return fake

    def gate(self) -> Gate:
        """Blocks every append until it is opened."""
        gate = Gate()
        produce = self.leader.Produce

        async def held(request: leader.ProduceRequest, context: Any) -> Any:
            await gate.passed()
            return await produce(request, context)

        self.leader.Produce = held  # type: ignore[method-assign]  # before the first call
        return gate

    async def remote_leader(self, node_id: int) -> tuple[Leader, ClusterMember, GrpcServer]:
        """A leader that the gateway reaches over a socket."""
        fake = Leader()
        address, server = await self._serve(Service("leader", fake, _register_leader))
        return fake, member(node_id, address), server

    async def _serve(self, *services: Service) -> tuple[str, GrpcServer]:
        server = GrpcServer()
        port = server.bind("127.0.0.1:0")
        for service in services:
            server.add(service)
        await server.start()
        self._stack.push_async_callback(server.stop, 0.0)
        return f"127.0.0.1:{port}", server


def _register_leader(fake: Leader, server: grpc.aio.Server) -> None:
    stream: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
        fake.Deliver, leader.DeliverRequest.FromString, lambda message: message.SerializeToString()
    )
    service = "sharebroker.share_partition_leader.v1.SharePartitionLeaderService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Deliver": stream}),))


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """A running gateway."""
    async with AsyncExitStack() as stack:
        harness = Harness(stack)
        await harness.open()
        yield harness
