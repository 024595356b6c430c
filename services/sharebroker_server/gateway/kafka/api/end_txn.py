"""EndTxn (26): commits or aborts a transaction."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.produce.transactions import end_txn
from sharebroker_server.kafka_wire.messages import EndTxnRequest, EndTxnResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_RAISES_EPOCH: Final = 5
"""From this version on the response has the producer epoch of the next transaction (KIP-890)."""

_request = to_proto(EndTxnRequest, pb.EndTxnRequest)
_response = to_kafka(pb.EndTxnResponse, EndTxnResponse)


async def handle(call: Call[EndTxnRequest]) -> EndTxnResponse:
    """Returns the producer's id and epoch."""
    call.rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, call.request.transactional_id)
    call.check_transactional_id(call.request.transactional_id)
    version = call.transaction_version(implied=call.version >= _RAISES_EPOCH)
    request = _request(call.request, transaction_version=version)
    return _response(await end_txn(call.gateway, request, call.deadline()))


API = Api(26, (0, 5), handle, Refusal(EndTxnResponse))
