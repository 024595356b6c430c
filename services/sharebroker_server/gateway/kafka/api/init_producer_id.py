"""InitProducerId (22): a number and an epoch for a producer; fences whoever had its transactional id."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.transactional import check_transactional_id
from sharebroker_server.gateway.produce.transactions import init_producer_id
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(22)
_NONE: Final = -1


async def handle(call: Call) -> Message:
    """Any broker answers a producer without a transactional id."""
    asked = call.request
    if asked.transactional_id is not None:
        check_transactional_id(call, asked.transactional_id)
    goes_on = asked.producer_id != _NONE
    if goes_on != (asked.producer_epoch != _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A producer id and its epoch come together.")
    request = pb.InitProducerIdRequest(
        transactional_id=asked.transactional_id,
        transaction_timeout_ms=asked.transaction_timeout_ms,
        producer_id=asked.producer_id if goes_on else None,
        producer_epoch=asked.producer_epoch if goes_on else None,
    )
    made = await init_producer_id(call.gateway, request, call.deadline())
    return _R.InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


def _refuse(call: Call, error: KafkaError) -> Message:
    code = told(API.key, call.version, error.code)
    return _R.InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Api(22, (0, 5), handle, _refuse)
