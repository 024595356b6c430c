"""ListTransactions (66): the transactions that this broker coordinates."""

from __future__ import annotations

from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.produce.transactions import list_transactions
from sharebroker_server.kafka_wire.messages import ListTransactionsRequest, ListTransactionsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_State = ListTransactionsResponse.TransactionState
_request = to_proto(ListTransactionsRequest, pb.ListTransactionsRequest, omit=("duration_filter",))
_state = to_kafka(pb.ListTransactionsResponse.TransactionState, _State)


async def handle(call: Call[ListTransactionsRequest]) -> ListTransactionsResponse:
    """Clients send the request to every broker.

    Each returns its own transactions, so that each is listed once.
    """
    request = _request(call.request)
    if call.request.duration_filter >= 0:
        request.duration_filter = call.request.duration_filter
    found = await list_transactions(call.gateway, request, call.deadline())
    return ListTransactionsResponse(
        unknown_state_filters=found.unknown_state_filters,
        transaction_states=[
            _state(state)
            for state in found.transaction_states
            if call.view.coordinator(state.transactional_id) == call.view.local_id
            and call.rights.allows(
                AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, state.transactional_id
            )
        ],
    )


# Version 2 adds regular expressions, which a client could write such that Python's engine never ends.
API = Api(66, (0, 1), handle, Refusal(ListTransactionsResponse))
