"""ListTransactions (66): the transactions that this broker coordinates."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.produce.transactions import list_transactions
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(66)


async def handle(call: Call) -> Message:
    """Clients ask every broker; each tells of those it coordinates, so that none is told twice."""
    asked = call.request
    request = pb.ListTransactionsRequest(
        state_filters=asked.state_filters,
        producer_id_filters=asked.producer_id_filters,
        duration_filter=asked.duration_filter if asked.duration_filter >= 0 else None,
    )
    found = await list_transactions(call.gateway, request, call.deadline())
    return _R.ListTransactionsResponse(
        unknown_state_filters=found.unknown_state_filters,
        transaction_states=[
            _R.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.transaction_state,
            )
            for one in found.transaction_states
            if call.view.coordinator(one.transactional_id) == call.view.me
        ],
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ListTransactionsResponse(error_code=error.code)


# Version 2 brings regular expressions: Python's can be made to run for ever by who writes them.
API = Api(66, (0, 1), handle, _refuse)
