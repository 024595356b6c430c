"""AddPartitionsToTxn (24): adds partitions to a transaction before a producer writes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition as ProtoPartition
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, for_version, refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.transactions import check_transactional_id, known_partitions
from sharebroker_server.gateway.produce.transactions import add_partitions_to_txn
from sharebroker_server.kafka_wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

_FIRST_WITH_SEVERAL: Final = 4
"""The first version whose requests name several transactions."""

_BEFORE_SEVERAL: Final = {
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
}

_Topics = Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
_TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Codes = Mapping[tuple[str, int], int]

_request = to_proto(AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction, pb.AddPartitionsToTxnRequest)
_request_before_several = to_proto(AddPartitionsToTxnRequest, pb.AddPartitionsToTxnRequest, _BEFORE_SEVERAL)


async def handle(call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
    """Adds either all partitions of a transaction or none."""
    if call.version >= _FIRST_WITH_SEVERAL:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=await _add(call, _request(transaction), transaction.topics),
                )
                for transaction in call.request.transactions
            ]
        )
    request = _request_before_several(call.request)
    results = await _add(call, request, call.request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


async def _add(call: Call, request: pb.AddPartitionsToTxnRequest, topics: _Topics) -> list[_TopicResult]:
    codes: dict[tuple[str, int], int] = {}
    known: dict[tuple[str, int], TopicIdPartition] = {}
    for topic in topics:
        for index in topic.partitions:
            try:
                (known[topic.name, index],) = known_partitions(call, topic.name, [index])
            except KafkaError as error:
                codes[topic.name, index] = error.code
    if codes:  # as in Kafka: one unknown partition prevents all others
        codes |= dict.fromkeys(known, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
    else:
        codes = await _send(call, request, known)
    return [_result(topic, codes) for topic in topics]


async def _send(
    call: Call, request: pb.AddPartitionsToTxnRequest, known: Mapping[tuple[str, int], TopicIdPartition]
) -> dict[tuple[str, int], int]:
    request.partitions.extend(
        ProtoPartition(topic_id=one.topic_id, partition=one.partition) for one in known.values()
    )
    try:
        check_transactional_id(call, request.transactional_id)
        response = await add_partitions_to_txn(call.gateway, request, call.deadline())
    except KafkaError as error:
        return dict.fromkeys(known, int(for_version(API.key, call.version, error.code)))
    return {key: result.error_code for key, result in zip(known, response.partitions, strict=True)}


def _result(topic: AddPartitionsToTxnRequest.AddPartitionsToTxnTopic, codes: _Codes) -> _TopicResult:
    return _TopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=codes[topic.name, index]
            )
            for index in topic.partitions
        ],
    )


_refuse = refusal(
    AddPartitionsToTxnResponse,
    {
        "results_by_topic_v3_and_below": "v3_and_below_topics",
        "results_by_topic_v3_and_below.results_by_partition": "partitions",
        "results_by_topic_v3_and_below.results_by_partition.partition_index": int,
    },
)
API = Api(24, (0, 5), handle, _refuse)
