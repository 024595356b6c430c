"""OffsetForLeaderEpoch (23): how far a leader epoch reaches; tells consumers whether a log was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import list_offsets
from sharebroker_server.gateway.admin.internal_topics import find_offset
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.topics import Part, answers, by_topic, part_of, parts
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(23)
_LATEST: Final = -1
_NO_EPOCH: Final = -1


async def handle(call: Call) -> Message:
    """No log is ever cut off at its end, so every epoch reaches to the end of the log."""
    located = [
        part_of(call, part, part.partition, part.current_leader_epoch, name=topic.topic)
        for topic, part in parts(call.request)
    ]
    given = await answers(
        located,
        lambda some: _ordinary(call, some),
        lambda some: _internal(call, some),
        lambda one: _error(one.asked, one.error),
    )
    return _response(call, given)


async def _ordinary(call: Call, some: list[Part]) -> list[Message]:
    partition = pb.ListOffsetsRequest.Partition
    request = pb.ListOffsetsRequest(
        partitions=[
            partition(topic_id=topic.topic_id, partition=asked.partition, timestamp=_LATEST)
            for topic, asked in some
        ]
    )
    found = await list_offsets(call.gateway, request, call.deadline())
    return [
        _answer(asked, one.offset, ErrorCode(one.error_code))
        for (_, asked), one in zip(some, found.partitions, strict=True)
    ]


async def _internal(call: Call, some: list[Part]) -> list[Message]:
    return await asyncio.gather(*(_of_internal(call, one) for one in some))


async def _of_internal(call: Call, part: Part) -> Message:
    topic, asked = part
    try:
        end = await find_offset(call.gateway, topic.topic_id, asked.partition, _LATEST)
        return _answer(asked, end.offset)
    except KafkaError as error:
        return _error(asked, error)


def _answer(asked: Any, end: int, error: ErrorCode = ErrorCode.NONE) -> Message:
    if error or asked.leader_epoch == _NO_EPOCH:
        return _R.EpochEndOffset(partition=asked.partition, error_code=error)
    return _R.EpochEndOffset(partition=asked.partition, leader_epoch=asked.leader_epoch, end_offset=end)


def _error(asked: Any, error: KafkaError) -> Message:
    return _R.EpochEndOffset(partition=asked.partition, error_code=error.code)


def _response(call: Call, given: Iterable[Message]) -> Message:
    return _R.OffsetForLeaderEpochResponse(
        topics=[
            _R.OffsetForLeaderTopicResult(topic=topic.topic, partitions=some)
            for topic, some in by_topic(call.request, given)
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, [_error(asked, error) for _, asked in parts(call.request)])


API = Api(23, (2, 4), handle, _refuse)
