"""AddOffsetsToTxn (25): makes a consumer group's offsets part of a transaction before they are committed."""

from __future__ import annotations

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.internal_topics import OFFSETS_TOPIC_ID
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.transactional import check_transactional_id
from sharebroker_server.gateway.produce.transactions import add_partitions_to_txn
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

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
