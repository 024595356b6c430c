"""Errors of servicers over a real gRPC connection, and of the same calls without one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2, share_pb2, share_pb2_grpc
from sharebroker_protocol.gateway.v1 import produce_pb2_grpc as produce_grpc
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc as pb_grpc
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.message_limits import MAX_MESSAGE
from sharebroker_server.rpc.server import GrpcServer, Service
from sharebroker_server.rpc.stubs import RemoteStub
from sharebroker_server.security.authentication.oauthbearer import LONGEST_BEARER_TOKEN
from tests.integration.rpc.harness import FAILURE, SERVICE, Leader, caught, echo, register
from tests.testkit.waiting import eventually


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

        async def rejected() -> str:
            error = await caught(stub.Produce(pb.ProduceRequest(transactional_id="t"), timeout=5))
            return error.message if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED else ""

        assert not await rejected()
        large = endless(2000)
        await eventually(rejected)
        assert "requests of 20" in await rejected()
        assert (await caught(stub.Produce(pb.ProduceRequest(), timeout=5))).code is FAILURE.code  # no bytes
        small = asyncio.create_task(stub.DeleteRecords(pb.DeleteRecordsRequest(), timeout=30))
        await eventually(lambda: _reports_calls(rejected))
        for call in (large, small):
            call.cancel()
        await eventually(lambda: _served(rejected))
    await server.stop(0)


async def _reports_calls(rejected: Callable[[], Awaitable[str]]) -> bool:
    return "2 calls are in flight" in await rejected()


async def _served(rejected: Callable[[], Awaitable[str]]) -> bool:
    return not await rejected()


async def test_errors_arrive_with_all_details(stub: Any) -> None:
    error = await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
    assert (error.code, error.message, error.metadata) == (FAILURE.code, FAILURE.message, FAILURE.metadata)
    assert (error.violations, error.retry_after) == (FAILURE.violations, FAILURE.retry_after)


async def test_kafka_error_ends_a_stream(stub: Any) -> None:
    error = await caught(echo(stub, 1, -1))
    assert error.code is FAILURE.code
    assert error.metadata == FAILURE.metadata


async def test_unexpected_failure_reveals_no_internals(address: str) -> None:
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


async def test_status_and_details_match_the_table(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await pb_grpc.SharePartitionLeaderServiceStub(channel).Produce(pb.ProduceRequest())
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert failure.value.details() == FAILURE.message


class Holder:
    """Holds a request in a local variable: messages accept no weak references."""

    def __init__(self, request: object) -> None:
        self.request = request


class Remembering(Leader):
    def __init__(self) -> None:
        self.holders: list[weakref.ref[Holder]] = []

    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        holder = Holder(request)
        self.holders.append(weakref.ref(holder))
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        holder = Holder(request)
        self.holders.append(weakref.ref(holder))
        raise ZeroDivisionError


async def test_requests_of_failed_calls_are_freed_at_once() -> None:
    leader, server = Remembering(), GrpcServer()
    port = server.bind("127.0.0.1:0")
    server.add(Service(SERVICE, leader, register))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(channel))
        gc.collect()
        gc.disable()
        try:
            await caught(stub.Produce(pb.ProduceRequest(), timeout=5))
            await caught(stub.ListOffsets(pb.ListOffsetsRequest(), timeout=5))
            await eventually(lambda: [holder() for holder in leader.holders] == [None, None])
        finally:
            gc.enable()
    await server.stop(0)


UNREADABLE: Final = {
    "too large": (bytes(MAX_MESSAGE + 1), ErrorCode.MESSAGE_TOO_LARGE),
    "no protobuf": (b"\xff\xff\xff", ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("method", ["Produce", "Deliver"])
async def test_undecodable_requests_are_rejected_with_details(address: str, name: str, method: str) -> None:
    data, code = UNREADABLE[name]
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel  # the types contain messages only
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
        assert await echo(stub, 1) == [1]  # the connection stays open


class Publisher:
    """A service that clients call."""

    async def Publish(self, request: produce_pb2.PublishRequest, context: Any) -> Any:
        if request.topic == "none":
            raise FAILURE
        return produce_pb2.PublishResponse(
            positions=[produce_pb2.PublishResponse.Position(offset=len(request.records))]
        )


@pytest.fixture
async def public_address() -> AsyncIterator[str]:
    def register_publisher(publisher: Publisher, server: grpc.aio.Server) -> None:
        publish: Any = grpc.unary_unary_rpc_method_handler(
            publisher.Publish,
            produce_pb2.PublishRequest.FromString,
            lambda message: message.SerializeToString(),
        )
        handlers = grpc.method_handlers_generic_handler(PUBLIC, {"Publish": publish})
        server.add_generic_rpc_handlers((handlers,))

    server = GrpcServer()
    port = server.bind("127.0.0.1:0")
    server.add(Service(PUBLIC, Publisher(), register_publisher))
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


PUBLIC: Final = "sharebroker.gateway.v1.ProduceService"


class Consumption:
    """A stream that clients call: it sends one response, then stays open."""

    async def Consume(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        yield share_pb2.ConsumeResponse()
        await asyncio.Event().wait()


def register_consumption(service: Consumption, server: grpc.aio.Server) -> None:
    """Adds the method."""
    consume: Any = grpc.stream_stream_rpc_method_handler(
        service.Consume, share_pb2.ConsumeRequest.FromString, share_pb2.ConsumeResponse.SerializeToString
    )
    handlers = grpc.method_handlers_generic_handler(SHARE, {"Consume": consume})
    server.add_generic_rpc_handlers((handlers,))


SHARE: Final = "sharebroker.gateway.v1.ShareService"


async def test_streams_of_a_clients_connection_are_limited() -> None:
    server = GrpcServer(CallLimits(max_streams=1))
    port = server.bind("127.0.0.1:0")
    server.add(Service(SHARE, Consumption(), register_consumption))
    server.add(Service(SERVICE, Leader(), register))
    await server.start()
    own_connection = (("grpc.use_local_subchannel_pool", 1),)
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own_connection) as first,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own_connection) as second,
    ):

        async def opened(channel: grpc.aio.Channel) -> Any:
            call = share_pb2_grpc.ShareServiceStub(channel).Consume()
            assert isinstance(await call.read(), share_pb2.ConsumeResponse)
            return call

        held = await opened(first)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await opened(first)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert from_rpc_error(failure.value).code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await opened(second)
        internal: Any = RemoteStub(pb_grpc.SharePartitionLeaderServiceStub(first))
        assert await echo(internal, 1) == [1]

        async def opens() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return await opened(first) is not None
            return False

        held.cancel()
        await eventually(opens)
    await server.stop(0)


async def test_requests_of_clients_are_limited_in_size_and_fields(public_address: str) -> None:
    async with grpc.aio.insecure_channel(public_address) as channel:
        raw: Any = channel  # the types contain messages only
        publish = RemoteStub(produce_grpc.ProduceServiceStub(channel)).Publish
        for data, code in (
            (bytes(MAX_MESSAGE + 1), ErrorCode.MESSAGE_TOO_LARGE),
            (b"\x12\0" * 500_000, ErrorCode.INVALID_REQUEST),
            (b"\xff" * 100_000, ErrorCode.INVALID_REQUEST),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await raw.unary_unary(f"/{PUBLIC}/Publish")(data)
            assert from_rpc_error(failure.value).code is code
        assert (
            await caught(publish(produce_pb2.PublishRequest(topic="none"), timeout=5))
        ).code is FAILURE.code
        records = [produce_pb2.PublishRecord(value=bytes(100))] * 10_000
        response = await publish(produce_pb2.PublishRequest(records=records), timeout=30)
        assert response.positions[0].offset == len(records)


async def test_headers_of_a_call_are_limited_but_fit_the_longest_token(address: str) -> None:
    """gRPC rejects calls at random between its two limits, so many calls show that none is rejected."""
    token = ("authorization", "Bearer " + "x" * LONGEST_BEARER_TOKEN)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.SharePartitionLeaderServiceStub(channel)

        async def status(*metadata: tuple[str, str]) -> grpc.StatusCode:
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await stub.Produce(pb.ProduceRequest(), metadata=metadata, timeout=30)
            return failure.value.code()

        accepted = {await status(token) for _ in range(50)}
        assert accepted == {grpc.StatusCode.FAILED_PRECONDITION}, "the servicer's"
        assert await status(token, ("another", "x" * 5000)) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_unary_call_without_a_request_is_rejected(public_address: str) -> None:
    async with grpc.aio.insecure_channel(public_address) as channel:
        raw: Any = channel
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await raw.stream_unary(f"/{PUBLIC}/Publish")(iter(()))
        assert from_rpc_error(failure.value).code is ErrorCode.INVALID_REQUEST


async def test_compressed_requests_are_not_supported(address: str) -> None:
    """A message of 116 KB could use 120 MB: gRPC checks the size before it decompresses."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.SharePartitionLeaderServiceStub(channel)
        request = pb.ProduceRequest(transactional_id="t" * 1000)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.Produce(request, compression=grpc.Compression.Gzip)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
