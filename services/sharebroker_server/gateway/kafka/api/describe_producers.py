"""DescribeProducers (61): what partitions remember of the producers that write to them."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition as Part
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.topics import Refused, is_internal, part_of
from sharebroker_server.gateway.produce.transactions import Producers, describe_producers
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(61)


async def handle(call: Call) -> Message:
    """Each partition has its own result."""
    return _R.DescribeProducersResponse(
        topics=[
            _R.TopicResponse(
                name=topic.name,
                partitions=[await _one(call, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in call.request.topics
        ]
    )


async def _one(call: Call, name: str, index: int) -> Message:
    part = part_of(call, index, index, name=name)
    if isinstance(part, Refused):
        return _failed(index, part.error)
    if is_internal(part.topic):  # nobody's producer writes to it
        return _R.PartitionResponse(partition_index=index)
    try:
        return _partition(index, await _ask(call, TopicIdPartition(part.topic.topic_id, index)))
    except KafkaError as error:
        return _failed(index, error)


def _failed(index: int, error: KafkaError) -> Message:
    return _R.PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


async def _ask(call: Call, partition: TopicIdPartition) -> Producers:
    part = Part(topic_id=partition.topic_id, partition=partition.partition)
    (answer,) = await describe_producers(call.gateway, [part], call.deadline())
    return answer


def _partition(index: int, answer: Any) -> Message:
    return _R.PartitionResponse(
        partition_index=index,
        error_code=answer.error_code,
        error_message=answer.error_message or None,
        active_producers=[
            _R.ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.current_txn_start_offset,
            )
            for one in answer.active_producers
        ],
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeProducersResponse(
        topics=[
            _R.TopicResponse(
                name=topic.name,
                partitions=[
                    _R.PartitionResponse(partition_index=index, error_code=error.code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in call.request.topics
        ]
    )


API = Api(61, (0, 0), handle, _refuse)
