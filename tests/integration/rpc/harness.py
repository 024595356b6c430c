"""A servicer whose calls fail, stream or do not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb

SERVICE = "sharebroker.share_partition_leader.v1.SharePartitionLeaderService"

FAILURE = KafkaError(
    ErrorCode.INVALID_RECORD_STATE,
    "offset 7: lock lost",
    metadata={"offset": "7"},
    violations=[FieldViolation("batches[0]", "not yours")],
    retry_after=1.5,
)


class Leader:
    STREAMING: Final = ("Deliver",)

    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        raise FAILURE

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        raise ZeroDivisionError("a secret of the server")

    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: Any) -> Any:
        await asyncio.Event().wait()

    async def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest], context: Any
    ) -> AsyncIterator[pb.DeliverResponse]:
        async for request in requests:
            if request.credit < 0:
                raise FAILURE
            response = pb.DeliverResponse()
            response.results.add(id=request.credit)
            yield response


def register(leader: Leader, server: grpc.aio.Server) -> None:
    """Adds the methods; the generated function would require all of them."""
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    coders: dict[str, Any] = {"response_serializer": lambda message: message.SerializeToString()}
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Produce": unary(leader.Produce, pb.ProduceRequest.FromString, **coders),
        "ListOffsets": unary(leader.ListOffsets, pb.ListOffsetsRequest.FromString, **coders),
        "DeleteRecords": unary(leader.DeleteRecords, pb.DeleteRecordsRequest.FromString, **coders),
        "Deliver": stream(leader.Deliver, pb.DeliverRequest.FromString, **coders),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


async def caught(call: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as failure:
        await call
    return failure.value


async def echo(stub: Any, *granted: int) -> list[int]:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        for credit in granted:
            yield pb.DeliverRequest(credit=credit)

    return [response.results[0].id async for response in stub.Deliver(requests())]
