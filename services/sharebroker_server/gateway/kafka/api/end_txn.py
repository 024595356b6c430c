"""EndTxn (26): commits or aborts a transaction."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.transactional import check_transactional_id, transaction_version
from sharebroker_server.gateway.produce.transactions import end_txn
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(26)
_RAISES_EPOCH = 5


async def handle(call: Call) -> Message:
    """From version 5 on the answer has the epoch that the next transaction is to be written with."""
    asked = call.request
    check_transactional_id(call, asked.transactional_id)
    request = pb.EndTxnRequest(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        committed=asked.committed,
        transaction_version=transaction_version(call, implied=call.version >= _RAISES_EPOCH),
    )
    ended = await end_txn(call.gateway, request, call.deadline())
    return _R.EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.EndTxnResponse(error_code=told(API.key, call.version, error.code))


API = Api(26, (0, 5), handle, _refuse)
