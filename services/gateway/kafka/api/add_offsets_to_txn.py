"""AddOffsetsToTxn (25): makes a consumer group's offsets part of a transaction before they are committed."""

from __future__ import annotations

from libs.catalog.internal import OFFSETS_TOPIC_ID
from libs.catalog.names import check_group_id
from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.old_errors import told
from services.gateway.kafka.transactional import check_transactional_id
from services.gateway.service.transactions import add_partitions_to_txn
from sharebroker.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb

_R = response_shapes(25)


async def handle(call: Call) -> Message:
    """A group stands in the transaction as the partition of __consumer_offsets that has it, as in Kafka."""
    asked = call.request
    check_transactional_id(call, asked.transactional_id)
    check_group_id(asked.group_id, code=ErrorCode.INVALID_GROUP_ID)
    shard = call.gateway.router.group_shard(asked.group_id)
    request = pb.AddPartitionsToTxnRequest(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        partitions=[TopicPartition(topic_id=OFFSETS_TOPIC_ID, partition=shard)],
    )
    await add_partitions_to_txn(call.gateway, request, call.deadline())
    return _R.AddOffsetsToTxnResponse()


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.AddOffsetsToTxnResponse(error_code=told(API.key, call.version, error.code))


API = Api(25, (0, 4), handle, _refuse)
