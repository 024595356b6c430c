"""DeleteRecords (21): moves the start of partitions' logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import delete_records
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.topics import Part, answers, by_topic, part_of, parts
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(21)
_NONE: Final = -1


async def handle(call: Call) -> Message:
    """Each partition has its own answer."""
    located = [
        part_of(call, part, part.partition_index, name=topic.name) for topic, part in parts(call.request)
    ]
    given = await answers(
        located, lambda some: _ordinary(call, some), _internal, lambda one: _error(one.asked, one.error)
    )
    return _response(call, given)


async def _ordinary(call: Call, some: list[Part]) -> list[Message]:
    partition = pb.DeleteRecordsRequest.Partition
    request = pb.DeleteRecordsRequest(
        partitions=[
            partition(topic_id=topic.topic_id, partition=asked.partition_index, offset=asked.offset)
            for topic, asked in some
        ]
    )
    answered = await delete_records(call.gateway, request, call.deadline(call.request.timeout_ms))
    return [
        _R.DeleteRecordsPartitionResult(
            partition_index=one.partition,
            low_watermark=_NONE if one.error_code else one.low_watermark,
            error_code=one.error_code,
        )
        for one in answered.partitions
    ]


async def _internal(some: list[Part]) -> list[Message]:
    """Kafka: an internal topic's records are not deleted by clients."""
    refusal = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return [_error(asked, refusal) for _, asked in some]


def _error(asked: Any, error: KafkaError) -> Message:
    return _R.DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=_NONE, error_code=error.code
    )


def _response(call: Call, given: Iterable[Message]) -> Message:
    return _R.DeleteRecordsResponse(
        topics=[
            _R.DeleteRecordsTopicResult(name=topic.name, partitions=some)
            for topic, some in by_topic(call.request, given)
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, [_error(asked, error) for _, asked in parts(call.request)])


API = Api(21, (0, 2), handle, _refuse)
