"""Start, health, reflection and routing of a gRPC server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.leases.port import ClusterMember, LeasesUnavailable
from sharebroker_server.routing.router import Router
from sharebroker_server.rpc.server import GrpcServer, reserve
from sharebroker_server.rpc.stubs import NOT_SENT
from tests.integration.rpc.harness import FAILURE, SERVICE, Leader, caught, echo


class Owners:
    """Every resource belongs to one member, or the owner is unknown."""

    def __init__(self, *members: ClusterMember) -> None:
        self.members = list(members)
        self.away = False

    async def owner_of(self, resource: str) -> ClusterMember | None:
        if self.away:
            raise LeasesUnavailable("no Redis")
        return self.members[0] if self.members else None

    def known_owner(self, resource: str) -> ClusterMember | None:
        return None

    def forget(self, resource: str) -> None:
        pass


async def test_a_used_port_is_reported_in_one_sentence(address: str) -> None:
    with pytest.raises(KafkaError, match="Cannot listen on") as failure:
        GrpcServer().bind(address)
    assert failure.value.code is ErrorCode.INVALID_CONFIG


async def test_servers_that_share_a_port_replace_each_other() -> None:
    with reserve("127.0.0.1:0") as held:
        shared = f"127.0.0.1:{held.getsockname()[1]}"
        servers = [GrpcServer(shares=True) for _ in range(2)]
        own = {server.bind("127.0.0.1:0") for server in servers}
        for server in servers:
            server.share(shared)
            await server.start()
        assert len(own | {held.getsockname()[1]}) == 3
        with pytest.raises(KafkaError, match=f"Cannot listen on {shared}: Address already in use"):
            reserve(shared)
        for server in servers:
            for _ in range(20):
                await health_of(shared)
            await server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await health_of(shared)


async def test_an_address_of_another_machine_cannot_be_shared() -> None:
    with pytest.raises(KafkaError, match=r"Cannot listen on 192\.0\.2\.1:0: Cannot assign requested address"):
        reserve("192.0.2.1:0")
    server = GrpcServer(shares=True)
    with pytest.raises(KafkaError, match=r"Cannot listen on 192\.0\.2\.1:1"):
        server.share("192.0.2.1:1")


async def health_of(address: str) -> None:
    """Calls a server on a new connection. Raises AioRpcError if none listens."""
    async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10.0)


async def test_health_and_reflection_list_the_service(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE):
            response = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert response.status == health_pb2.HealthCheckResponse.SERVING
        statuses = (await health.List(health_pb2.HealthListRequest())).statuses
        assert statuses[SERVICE].status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        [listed] = [response async for response in stream]
        requests = [
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
            for name in (SERVICE, f"{SERVICE}.Produce", f"{SERVICE}.Absent", "absent")
        ]
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(requests))
        found = [response.HasField("file_descriptor_response") async for response in stream]
    assert found == [True, True, False, False]
    assert SERVICE in {service.name for service in listed.list_services_response.service}


ME = ClusterMember("1/1", 1, frozenset({"share-partition-leader"}), "127.0.0.1:9")


async def test_router_calls_its_own_process_without_a_socket() -> None:
    router = Router(Owners(ME), ME.owner)
    router.register_local(pb_grpc.SharePartitionLeaderServiceStub, Leader())
    peer = await router.leader("T", 0)
    assert (await caught(peer.stub.Produce(pb.ProduceRequest(), timeout=5))).code is FAILURE.code
    await router.close()


async def test_router_closes_channels_to_departed_brokers(address: str) -> None:
    first, second, third = (
        ClusterMember(f"{number}/1", number, ME.roles, where)
        for number, where in enumerate((address, "127.0.0.1:9", "127.0.0.1:10"), 1)
    )
    owners = Owners(first)
    router = Router(owners, ME.owner)
    alive = (await router.leader("T", 0)).stub
    assert (await caught(alive.Produce(pb.ProduceRequest(), timeout=5))).code is FAILURE.code
    owners.members = [second]
    gone = (await router.leader("T", 0)).stub
    await caught(gone.Produce(pb.ProduceRequest(), timeout=5))
    owners.members = [third]
    await router.leader("T", 0)
    error = await caught(gone.Produce(pb.ProduceRequest(), timeout=5))
    assert (error.code, NOT_SENT in error.metadata) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    error = await caught(echo(gone, 1))
    assert NOT_SENT in error.metadata
    assert await echo(alive, 1) == [1]  # no longer announced, but it still responds
    await router.close()


@pytest.mark.parametrize(
    ("look_up", "code"),
    [
        (lambda router: router.leader("T", 0), ErrorCode.LEADER_NOT_AVAILABLE),
        (lambda router: router.group_coordinator(0), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (lambda router: router.catalog(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (lambda router: router.share_coordinator(3), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_router_reports_missing_shards(
    look_up: Callable[[Router], Awaitable[object]], code: ErrorCode
) -> None:
    router = Router(Owners(), ME.owner)
    assert (await caught(look_up(router))).code is code


async def test_router_without_redis_raises_a_retriable_error() -> None:
    owners = Owners(ME)
    owners.away = True
    error = await caught(Router(owners, ME.owner).leader("T", 0))
    assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error.retriable
