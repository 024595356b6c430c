"""ListOffsets (2): the first and the last offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import list_offsets
from sharebroker_server.gateway.admin.internal_topics import find_offset
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.topics import (
    Located,
    Rejected,
    by_topic,
    each_partition,
    locate,
)
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_FIRST_VERSIONS: Final[Mapping[int, int]] = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamps, and the first version of each."""

_TIERED: Final = frozenset({_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD})
"""Timestamps without an offset on a broker without tiered storage; an unknown partition is still an error."""

_EQUIVALENT: Final[Mapping[int, int]] = {_EARLIEST_LOCAL: _EARLIEST} | dict.fromkeys(_TIERED, _LATEST)
"""The timestamps that are looked up instead."""

_Item = ListOffsetsRequest.ListOffsetsPartition
_Result = ListOffsetsResponse.ListOffsetsPartitionResponse


async def handle(call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Returns one result per partition."""
    named = Counter(
        (topic.name, one.partition_index) for topic in call.request.topics for one in topic.partitions
    )
    located = [
        _locate(call, topic.name, item, once=named[topic.name, item.partition_index] == 1)
        for topic in call.request.topics
        for item in topic.partitions
    ]
    results = await each_partition(
        located,
        lambda items: _ordinary(call, items),
        lambda items: _internal(call, items),
        lambda rejected: _failed(rejected.item, rejected.error.code),
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)
            for topic, partitions in by_topic(call.request.topics, results)
        ]
    )


def _locate(call: Call, name: str, item: _Item, *, once: bool) -> Located[_Item] | Rejected[_Item]:
    if not once:
        return Rejected(item, KafkaError(ErrorCode.INVALID_REQUEST, "The request names the partition twice."))
    if item.timestamp < 0 and call.version < _FIRST_VERSIONS.get(item.timestamp, call.version + 1):
        return Rejected(item, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    return locate(call, item, item.partition_index, item.current_leader_epoch, name=name)


async def _ordinary(call: Call[ListOffsetsRequest], items: list[Located[_Item]]) -> list[_Result]:
    request = pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsRequest.Partition(
                topic_id=topic.topic_id,
                partition=item.partition_index,
                timestamp=_EQUIVALENT.get(item.timestamp, item.timestamp),
            )
            for topic, item in items
        ],
        isolation_level=call.request.isolation_level,
    )
    found = await list_offsets(call.gateway, request, call.deadline(call.request.timeout_ms or None))
    return [
        _result(call, item, one.offset, one.timestamp, ErrorCode(one.error_code))
        for (_, item), one in zip(items, found.partitions, strict=True)
    ]


async def _internal(call: Call, items: list[Located[_Item]]) -> list[_Result]:
    return await asyncio.gather(*(_internal_offset(call, located) for located in items))


async def _internal_offset(call: Call, located: Located[_Item]) -> _Result:
    topic, item = located
    try:
        timestamp = _EQUIVALENT.get(item.timestamp, item.timestamp)
        found = await find_offset(call.gateway, topic.topic_id, item.partition_index, timestamp)
    except KafkaError as error:
        return _failed(item, error.code)
    return _result(call, item, found.offset, found.timestamp)


def _result(
    call: Call, item: _Item, offset: int, timestamp: int, error: ErrorCode = ErrorCode.NONE
) -> _Result:
    if error or offset < 0 or item.timestamp in _TIERED:
        return _failed(item, error)
    return _Result(
        partition_index=item.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=call.view.epoch,
    )


def _failed(item: _Item, code: ErrorCode) -> _Result:
    return _Result(partition_index=item.partition_index, error_code=code)


_refuse = refusal(ListOffsetsResponse, {"topics": "topics", "topics.partitions": "partitions"}, timestamp=-1)
API = Api(2, (1, 11), handle, _refuse)
