"""InitProducerId (22): assigns a producer id and an epoch; fences earlier producers of a transactional id."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.produce.transactions import init_producer_id
from sharebroker_server.kafka_wire.messages import InitProducerIdRequest, InitProducerIdResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_NONE: Final = -1

_request = to_proto(InitProducerIdRequest, pb.InitProducerIdRequest, omit=("producer_id", "producer_epoch"))
_response = to_kafka(pb.InitProducerIdResponse, InitProducerIdResponse)


async def handle(call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
    """Any broker serves a producer without a transactional id."""
    authorize(call)
    if call.request.transactional_id is not None:
        call.check_transactional_id(call.request.transactional_id)
    has_id = call.request.producer_id != _NONE
    if has_id != (call.request.producer_epoch != _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A producer id requires its epoch, and vice versa.")
    request = _request(call.request)
    if has_id:
        request.producer_id = call.request.producer_id
        request.producer_epoch = call.request.producer_epoch
    return _response(await init_producer_id(call.gateway, request, call.deadline()))


def authorize(call: Call[InitProducerIdRequest]) -> None:
    """Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

    Raises CLUSTER_AUTHORIZATION_FAILED if the client may neither do IDEMPOTENT_WRITE nor WRITE to some topic.
    """
    if call.request.transactional_id is not None:
        call.rights.require(
            AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, call.request.transactional_id
        )
    elif not call.gateway.authorizer.allows_any(call.requester, AclOperation.WRITE, AclResourceType.TOPIC):
        call.rights.require_on_cluster(AclOperation.IDEMPOTENT_WRITE)


API = Api(22, (0, 5), handle, Refusal(InitProducerIdResponse, producer_id=_NONE, producer_epoch=_NONE))
