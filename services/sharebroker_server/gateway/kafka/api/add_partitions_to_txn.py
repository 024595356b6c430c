"""AddPartitionsToTxn (24): makes partitions part of a transaction before a producer writes to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition as Part
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.transactional import check_transactional_id, known_partitions
from sharebroker_server.gateway.produce.transactions import add_partitions_to_txn
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(24)
_MANY: Final = 4
"""From here on a request has several transactions."""

_Named = Mapping[tuple[str, int], TopicIdPartition]


async def handle(call: Call) -> Message:
    """All partitions of a transaction are added, or none is."""
    asked = call.request
    if call.version >= _MANY:
        return _R.AddPartitionsToTxnResponse(
            results_by_transaction=[
                _R.AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=await _add(
                        call,
                        _request(one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only),
                        one.topics,
                    ),
                )
                for one in asked.transactions
            ]
        )
    request = _request(
        asked.v3_and_below_transactional_id,
        asked.v3_and_below_producer_id,
        asked.v3_and_below_producer_epoch,
        verify_only=False,
    )
    return _R.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _add(call, request, asked.v3_and_below_topics)
    )


def _request(name: str, producer_id: int, epoch: int, verify_only: bool) -> pb.AddPartitionsToTxnRequest:
    return pb.AddPartitionsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, verify_only=verify_only
    )


async def _add(call: Call, request: pb.AddPartitionsToTxnRequest, topics: Any) -> list[Message]:
    codes: dict[tuple[str, int], int] = {}
    named: dict[tuple[str, int], TopicIdPartition] = {}
    for topic in topics:
        for index in topic.partitions:
            try:
                (named[topic.name, index],) = known_partitions(call, topic.name, [index])
            except KafkaError as error:
                codes[topic.name, index] = error.code
    if codes:  # Kafka: the others are not tried
        codes |= dict.fromkeys(named, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
    else:
        codes = await _try(call, request, named)
    return [_topic(topic, codes) for topic in topics]


async def _try(
    call: Call, request: pb.AddPartitionsToTxnRequest, named: _Named
) -> dict[tuple[str, int], int]:
    request.partitions.extend(Part(topic_id=p.topic_id, partition=p.partition) for p in named.values())
    try:
        check_transactional_id(call, request.transactional_id)
        answer = await add_partitions_to_txn(call.gateway, request, call.deadline())
    except KafkaError as error:
        return dict.fromkeys(named, int(told(API.key, call.version, error.code)))
    return {key: one.error_code for key, one in zip(named, answer.partitions, strict=True)}


def _topic(topic: Any, codes: Mapping[tuple[str, int], int]) -> Message:
    return _R.AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            _R.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=codes[topic.name, index]
            )
            for index in topic.partitions
        ],
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    asked = call.request
    failed = {
        (topic.name, index): int(error.code)
        for topic in asked.v3_and_below_topics
        for index in topic.partitions
    }
    return _R.AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_topic_v3_and_below=[_topic(topic, failed) for topic in asked.v3_and_below_topics],
    )


API = Api(24, (0, 5), handle, _refuse)
