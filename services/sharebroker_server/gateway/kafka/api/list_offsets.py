"""ListOffsets (2): where partitions begin and end, and which offset belongs to a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import list_offsets
from sharebroker_server.gateway.admin.internal_topics import find_offset
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.topics import Part, Refused, answers, by_topic, part_of, parts
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(2)

_LATEST: Final = -1
_EARLIEST: Final = -2
_NEWEST: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE: Final[Mapping[int, int]] = {
    _LATEST: 1,
    _EARLIEST: 1,
    _NEWEST: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""Timestamps that stand for something else, and the version from which on."""

_NOWHERE: Final = frozenset({_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD})
"""What a broker without tiered storage has no offset for, where the partition is there at all."""

_MEANT: Final[Mapping[int, int]] = {_EARLIEST_LOCAL: _EARLIEST} | dict.fromkeys(_NOWHERE, _LATEST)
"""What is looked up instead."""


async def handle(call: Call) -> Message:
    """Each partition has its own answer."""
    asked = parts(call.request)
    named = Counter((topic.name, part.partition_index) for topic, part in asked)
    located = [
        _part(call, topic.name, part, once=named[topic.name, part.partition_index] == 1)
        for topic, part in asked
    ]
    given = await answers(
        located,
        lambda some: _ordinary(call, some),
        lambda some: _internal(call, some),
        lambda one: _error(one.asked, one.error),
    )
    return _response(call, given)


def _part(call: Call, name: str, asked: Any, *, once: bool) -> Part | Refused:
    if not once:
        return Refused(asked, KafkaError(ErrorCode.INVALID_REQUEST, "The partition is asked for twice."))
    if asked.timestamp < 0 and call.version < _SINCE.get(asked.timestamp, call.version + 1):
        return Refused(asked, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    return part_of(call, asked, asked.partition_index, asked.current_leader_epoch, name=name)


async def _ordinary(call: Call, some: list[Part]) -> list[Message]:
    request = pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsRequest.Partition(
                topic_id=topic.topic_id,
                partition=asked.partition_index,
                timestamp=_MEANT.get(asked.timestamp, asked.timestamp),
            )
            for topic, asked in some
        ],
        isolation_level=call.request.isolation_level,
    )
    found = await list_offsets(call.gateway, request, call.deadline(call.request.timeout_ms or None))
    return [
        _answer(call, asked, one.offset, one.timestamp, ErrorCode(one.error_code))
        for (_, asked), one in zip(some, found.partitions, strict=True)
    ]


async def _internal(call: Call, some: list[Part]) -> list[Message]:
    return await asyncio.gather(*(_of_internal(call, one) for one in some))


async def _of_internal(call: Call, part: Part) -> Message:
    topic, asked = part
    try:
        timestamp = _MEANT.get(asked.timestamp, asked.timestamp)
        found = await find_offset(call.gateway, topic.topic_id, asked.partition_index, timestamp)
    except KafkaError as error:
        return _error(asked, error)
    return _answer(call, asked, found.offset, found.timestamp)


def _answer(
    call: Call, asked: Any, offset: int, timestamp: int, error: ErrorCode = ErrorCode.NONE
) -> Message:
    if error or offset < 0 or asked.timestamp in _NOWHERE:
        return _R.ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
    return _R.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=call.view.epoch,
    )


def _error(asked: Any, error: KafkaError) -> Message:
    return _R.ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)


def _response(call: Call, given: Iterable[Message]) -> Message:
    return _R.ListOffsetsResponse(
        topics=[
            _R.ListOffsetsTopicResponse(name=topic.name, partitions=some)
            for topic, some in by_topic(call.request, given)
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, [_error(asked, error) for _, asked in parts(call.request)])


API = Api(2, (1, 11), handle, _refuse)
