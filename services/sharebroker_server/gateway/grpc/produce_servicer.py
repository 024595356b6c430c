"""Serves ProduceService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceServicer
from sharebroker_server.gateway.grpc.rpc import GatewayServicer, rpc
from sharebroker_server.gateway.produce.append import produce
from sharebroker_server.gateway.produce.publish import publish
from sharebroker_server.gateway.produce.stream import produce_stream
from sharebroker_server.gateway.produce.transactions import end_txn, init_producer_id


class ProduceServicer(GatewayServicer, ProduceServiceServicer):
    """Translates requests to the functions of `gateway.produce`."""

    STREAMING: Final = ("ProduceStream",)

    Publish = rpc(publish)
    Produce = rpc(produce)
    InitProducerId = rpc(init_producer_id)
    EndTxn = rpc(end_txn)

    @override
    def ProduceStream(
        self,
        request_iterator: AsyncIterator[pb.ProduceStreamRequest],
        context: Any,
    ) -> AsyncIterator[pb.ProduceStreamResponse]:
        return produce_stream(self._gateway, request_iterator)
