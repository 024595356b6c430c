"""Errors, streams, health and reflection over a real gRPC connection, and the same calls without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.cluster.router import Router
from sharebroker_server.leases.port import LeasesUnavailable, Member
from sharebroker_server.rpc.deserializers import MAX_MESSAGE
from sharebroker_server.rpc.limits import CallLimits
from sharebroker_server.rpc.local import LocalStub
from sharebroker_server.rpc.remote import NOT_SENT, RemoteStub
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.testkit.waiting import eventually

SERVICE = "sharebroker.share_partition_leader.v1.SharePartitionLeaderService"

REFUSAL = KafkaError(
    ErrorCode.INVALID_RECORD_STATE,
    "offset 7: lock lost",
    metadata={"offset": "7"},
    violations=[FieldViolation("batches[0]", "not yours")],
    retry_after=1.5,
)


class Leader:
    STREAMING: Final = ("Deliver",)

    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        raise REFUSAL

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        raise ZeroDivisionError("a secret of the server")

    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: Any) -> Any:
        await asyncio.Event().wait()

    async def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest], context: Any
    ) -> AsyncIterator[pb.DeliverResponse]:
        async for request in requests:
            if request.credit < 0:
                raise REFUSAL
            response = pb.DeliverResponse()
            response.results.add(id=request.credit)
            yield response


def register(leader: Leader, server: grpc.aio.Server) -> None:
    """Adds the methods; the generated function would want them all."""
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    coders: dict[str, Any] = {"response_serializer": lambda message: message.SerializeToString()}
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Produce": unary(leader.Produce, pb.ProduceRequest.FromString, **coders),
        "ListOffsets": unary(leader.ListOffsets, pb.ListOffsetsRequest.FromString, **coders),
        "DeleteRecords": unary(leader.DeleteRecords, pb.DeleteRecordsRequest.FromString, **coders),
        "Deliver": stream(leader.Deliver, pb.DeliverRequest.FromString, **coders),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


class Owners:
    """Everything belongs to one member, or nobody knows."""

    def __init__(self, *members: Member) -> None:
        self.members = list(members)
        self.away = False

    async def owner_of(self, resource: str) -> Member | None:
        if self.away:
            raise LeasesUnavailable("no Redis")
        return self.members[0] if self.members else None

    def known_owner(self, resource: str) -> Member | None:
        return None

    def forget(self, resource: str) -> None:
        pass


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


async def caught(call: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as failure:
        await call
    return failure.value


async def test_calls_beyond_the_limits_are_retriable_errors() -> None:
    server = GrpcServer(CallLimits(max_calls=2, max_bytes=1000))
    port = server.bind("127.0.0.1:0")
    server.add(Service(SERVICE, Leader(), register))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))

        def endless(size: int) -> asyncio.Task[Any]:
            part = pb.DeleteRecordsRequest.Partition(topic_id="x" * size)
            request = pb.DeleteRecordsRequest(partitions=[part])
            return asyncio.create_task(stub.DeleteRecords(request, timeout=30))

        async def refused() -> str:
            error = await caught(stub.Produce(pb.ProduceRequest(transactional_id="t"), timeout=5))
            return error.message if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED else ""

        assert not await refused()
        large = endless(2000)
        await eventually(refused)
        assert "requests of 20" in await refused()
        assert (await caught(stub.Produce(pb.ProduceRequest(), timeout=5))).code is REFUSAL.code  # no bytes
        small = asyncio.create_task(stub.DeleteRecords(pb.DeleteRecordsRequest(), timeout=30))
        await eventually(lambda: _says_calls(refused))
        for call in (large, small):
            call.cancel()
        await eventually(lambda: _served(refused))
    await server.stop(0)


async def _says_calls(refused: Callable[[], Awaitable[str]]) -> bool:
    return "2 calls are in flight" in await refused()


async def _served(refused: Callable[[], Awaitable[str]]) -> bool:
    return not await refused()


async def test_errors_arrive_with_all_details(stub: Any) -> None:
    error = await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
    assert (error.code, error.message, error.metadata) == (REFUSAL.code, REFUSAL.message, REFUSAL.metadata)
    assert (error.violations, error.retry_after) == (REFUSAL.violations, REFUSAL.retry_after)


async def echo(stub: Any, *granted: int) -> list[int]:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        for credit in granted:
            yield pb.DeliverRequest(credit=credit)

    return [response.results[0].id async for response in stub.Deliver(requests())]


async def test_stream_carries_messages_both_ways(stub: Any) -> None:
    assert await echo(stub, 1, 2, 3) == [1, 2, 3]


async def test_refusal_ends_a_stream(stub: Any) -> None:
    error = await caught(echo(stub, 1, -1))
    assert error.code is REFUSAL.code
    assert error.metadata == REFUSAL.metadata


async def test_unexpected_failure_shows_nothing_of_the_server(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        error = await caught(stub.ListOffsets(pb.ListOffsetsRequest(), timeout=5))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in str(error)


async def test_a_slow_server_returns_its_own_timeout_error(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        error = await caught(stub.DeleteRecords(pb.DeleteRecordsRequest(), timeout=1))
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "may or may not have been executed" in error.message


async def test_status_and_details_are_those_of_the_table(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await pb_grpc.SharePartitionLeaderServiceStub(channel).Produce(pb.ProduceRequest())
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert failure.value.details() == REFUSAL.message


UNREADABLE: Final = {
    "too large": (bytes(MAX_MESSAGE + 1), ErrorCode.MESSAGE_TOO_LARGE),
    "no protobuf": (b"\xff\xff\xff", ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("method", ["Produce", "Deliver"])
async def test_undecodable_requests_are_rejected_with_details(address: str, name: str, method: str) -> None:
    data, code = UNREADABLE[name]
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel  # the types know of messages only
        if method == "Produce":
            call = raw.unary_unary(f"/{SERVICE}/Produce")(data)
        else:
            call = raw.stream_stream(f"/{SERVICE}/Deliver")(iter([data])).read()
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        error = from_rpc_error(failure.value)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (error.code, bool(error.message)) == (code, True)
        assert "grpc-status-details-bin" in dict(failure.value.trailing_metadata() or ())
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        assert await echo(stub, 1) == [1]  # the connection goes on


async def test_an_unreachable_server_is_a_retriable_error() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:9") as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        error = await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
    assert error.retriable
    assert NOT_SENT in error.metadata
    assert "127.0.0.1:9" in error.message


async def test_a_used_port_is_reported_in_one_sentence(address: str) -> None:
    with pytest.raises(KafkaError, match="Cannot listen on") as failure:
        GrpcServer().bind(address)
    assert failure.value.code is ErrorCode.INVALID_CONFIG


async def test_health_and_reflection_know_the_service(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        [listed] = [answer async for answer in stream]
        requests = [
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
            for name in (SERVICE, f"{SERVICE}.Produce", f"{SERVICE}.Absent", "absent")
        ]
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(requests))
        found = [answer.HasField("file_descriptor_response") async for answer in stream]
    assert found == [True, True, False, False]
    assert SERVICE in {service.name for service in listed.list_services_response.service}


ME = Member("1/1", 1, frozenset({"share-partition-leader"}), "127.0.0.1:9")


async def test_router_calls_its_own_process_without_a_socket() -> None:
    router = Router(Owners(ME), ME.owner)
    router.register_local(pb_grpc.SharePartitionLeaderServiceStub, Leader())
    peer = await router.leader("T", 0)
    assert (await caught(peer.stub.Produce(pb.ProduceRequest(), timeout=5))).code is REFUSAL.code
    await router.close()


async def test_router_closes_channels_to_departed_brokers(address: str) -> None:
    first, second, third = (
        Member(f"{number}/1", number, ME.roles, where)
        for number, where in enumerate((address, "127.0.0.1:9", "127.0.0.1:10"), 1)
    )
    owners = Owners(first)
    router = Router(owners, ME.owner)
    alive = (await router.leader("T", 0)).stub
    assert (await caught(alive.Produce(pb.ProduceRequest(), timeout=5))).code is REFUSAL.code
    owners.members = [second]
    gone = (await router.leader("T", 0)).stub
    await caught(gone.Produce(pb.ProduceRequest(), timeout=5))
    owners.members = [third]
    await router.leader("T", 0)
    error = await caught(gone.Produce(pb.ProduceRequest(), timeout=5))
    assert (error.code, NOT_SENT in error.metadata) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    error = await caught(echo(gone, 1))
    assert NOT_SENT in error.metadata
    assert await echo(alive, 1) == [1]  # not announced any more, and yet it answers
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


async def test_router_without_redis_answers_retriably() -> None:
    owners = Owners(ME)
    owners.away = True
    error = await caught(Router(owners, ME.owner).leader("T", 0))
    assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error.retriable
