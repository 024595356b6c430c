"""AddPartitionsToTxn (24): adds partitions to a transaction before a producer writes to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import check_not_internal
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal, for_version
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.gateway.produce.transactions import add_partitions_to_txn
from sharebroker_server.kafka_wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_FIRST_WITH_SEVERAL: Final = 4
"""The first version whose requests name several transactions."""

_BEFORE_SEVERAL: Final = {
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
}

_Topics = Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
_Transaction = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult

_request = to_proto(AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction, pb.AddPartitionsToTxnRequest)
_request_before_several = to_proto(AddPartitionsToTxnRequest, pb.AddPartitionsToTxnRequest, _BEFORE_SEVERAL)


async def handle(call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
    """Adds either all partitions of a transaction or none."""
    if call.version >= _FIRST_WITH_SEVERAL:  # from brokers
        call.rights.require_on_cluster(AclOperation.CLUSTER_ACTION)
        results = []
        for transaction in call.request.transactions:
            topics = await _add(call, _request(transaction), transaction.topics)
            results.append(_Transaction(transactional_id=transaction.transactional_id, topic_results=topics))
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transactional_id = call.request.v3_and_below_transactional_id
    call.rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
    topics = await _add(call, _request_before_several(call.request), call.request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


async def _add(call: Call, request: pb.AddPartitionsToTxnRequest, topics: _Topics) -> list[_Topic]:
    requested = ((topic.name, index) for topic in topics for index in topic.partitions)
    checked = ((named, _check(call, *named)) for named in requested)
    codes = dict(await call.gateway.turns.collect(checked, PORTION))
    if any(codes.values()):  # as in Kafka: one unknown partition prevents all others
        codes = {key: code or ErrorCode.OPERATION_NOT_ATTEMPTED for key, code in codes.items()}
    else:
        for name, index in codes:
            request.partitions.add(topic_id=call.gateway.topic(name).topic_id, partition=index)
        codes = dict(zip(codes, await _send(call, request), strict=True))
    results: list[_Topic] = [_refuse.item("results_by_topic_v3_and_below", topic) for topic in topics]
    for topic in results:
        for partition in topic.results_by_partition:
            partition.partition_error_code = codes[topic.name, partition.partition_index]
    return results


def _check(call: Call, name: str, index: int) -> int:
    """Returns the error code of a partition that cannot be added, else 0."""
    try:
        if call.version < _FIRST_WITH_SEVERAL:
            call.rights.require(AclOperation.WRITE, AclResourceType.TOPIC, name)
        check_not_internal(name)
        topic = call.gateway.topic(name)
        call.gateway.catalog.catalog.check_own(topic)
        known = 0 <= index < topic.partitions
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _send(call: Call, request: pb.AddPartitionsToTxnRequest) -> list[int]:
    try:
        call.check_transactional_id(request.transactional_id)
        response = await add_partitions_to_txn(call.gateway, request, call.deadline())
    except KafkaError as error:
        return [for_version(API.key, call.version, error.code)] * len(request.partitions)
    return [result.error_code for result in response.partitions]


_refuse = Refusal(
    AddPartitionsToTxnResponse,
    {
        "results_by_topic_v3_and_below": "v3_and_below_topics",
        "results_by_topic_v3_and_below.results_by_partition": "partitions",
        "results_by_topic_v3_and_below.results_by_partition.partition_index": int,
    },
)
API = Api(24, (0, 5), handle, _refuse)
