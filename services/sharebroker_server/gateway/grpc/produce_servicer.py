"""Serves ProduceService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceServicer
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.produce.append import produce
from sharebroker_server.gateway.produce.publish import publish
from sharebroker_server.gateway.produce.stream import produce_stream
from sharebroker_server.gateway.produce.transactions import end_txn, init_producer_id


class ProduceServicer(ProduceServiceServicer):
    """Translates requests to the functions of `gateway.produce`."""

    STREAMING: Final = ("ProduceStream",)

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @override
    async def Publish(self, request: pb.PublishRequest, context: Any) -> pb.PublishResponse:
        return await publish(self._gateway, request, Deadline.of(context))

    @override
    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        return await produce(self._gateway, request, Deadline.of(context))

    @override
    async def InitProducerId(
        self, request: transactions.InitProducerIdRequest, context: Any
    ) -> transactions.InitProducerIdResponse:
        return await init_producer_id(self._gateway, request, Deadline.of(context))

    @override
    async def EndTxn(self, request: transactions.EndTxnRequest, context: Any) -> transactions.EndTxnResponse:
        return await end_txn(self._gateway, request, Deadline.of(context))

    @override
    def ProduceStream(
        self,
        request_iterator: AsyncIterator[pb.ProduceStreamRequest],
        context: Any,
    ) -> AsyncIterator[pb.ProduceStreamResponse]:
        return produce_stream(self._gateway, request_iterator)
