"""Produce: batches of upstream topics go to their leaders, whose responses are those of the client.

Requests of one client are sent one after the other, so that a leader appends them in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.api import produce
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.core.splitting import Shape, replaced
from sharebroker_server.gateway.kafka.forwarding.partitions import LeaderApi, handle
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.kafka_wire.messages import ProduceRequest, ProduceResponse
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.record_log.core.batch import HEADER_SIZE, header_of
from sharebroker_server.security.acl import AclOperation

_NO_RESPONSE: Final = 0
_LEADER: Final = 1
"""Values of acks."""


def _failed(_: Call[Any], part: Any, code: ErrorCode) -> Message:
    return ProduceResponse.PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)


def _with_response(request: ProduceRequest) -> ProduceRequest:
    """Returns a request that the leader responds to: an error is the reason to close the connection."""
    return replaced(request, acks=_LEADER) if request.acks == _NO_RESPONSE else request


def _is_transactional(request: ProduceRequest) -> bool:
    parts = (part.records or b"" for topic in request.topic_data for part in topic.partition_data)
    return any(len(records) >= HEADER_SIZE and header_of(records).transactional for records in parts)


PRODUCE: Final = LeaderApi(
    produce.API,
    Shape(
        ProduceResponse.TopicProduceResponse,
        topics="topic_data",
        partitions="partition_data",
        index="index",
        responses="responses",
        results="partition_responses",
        result_index="index",
    ),
    ProduceResponse,
    AclOperation.WRITE,
    _failed,
)


async def handle_produce(upstream: Upstream, call: Call[ProduceRequest]) -> ProduceResponse | None:
    """Forwards the batches of upstream topics. A request with acks=0 has no response."""
    denied = _is_transactional(call.request) and produce.transaction_denial(call) is not None
    if denied or call.request.acks not in produce.ACKS:
        return await produce.handle(call)
    answered = replace(call, request=_with_response(call.request))
    response: ProduceResponse = await handle(PRODUCE, upstream, answered)
    if call.request.acks == _NO_RESPONSE:
        produce.close_after_failure(response)
        return None
    return response
