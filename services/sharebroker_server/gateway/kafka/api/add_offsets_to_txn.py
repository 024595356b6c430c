"""AddOffsetsToTxn (25): adds the offsets of a consumer group to a transaction before they are committed."""

from __future__ import annotations

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID, check_group_id
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.produce.transactions import add_partitions_to_txn
from sharebroker_server.kafka_wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_request = to_proto(AddOffsetsToTxnRequest, pb.AddPartitionsToTxnRequest)


async def handle(call: Call[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse:
    """Adds the partition of __consumer_offsets that stores the group's offsets, as Kafka does."""
    call.rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, call.request.transactional_id)
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    call.check_transactional_id(call.request.transactional_id)
    check_group_id(call.request.group_id, code=ErrorCode.INVALID_GROUP_ID)
    shard = call.gateway.router.group_shard(call.request.group_id)
    partition = TopicPartition(topic_id=OFFSETS_TOPIC_ID, partition=shard)
    request = _request(call.request, partitions=[partition])
    await add_partitions_to_txn(call.gateway, request, call.deadline())
    return AddOffsetsToTxnResponse()


API = Api(25, (0, 4), handle, Refusal(AddOffsetsToTxnResponse))
