"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, with which consumers detect truncation."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import list_offsets
from sharebroker_server.gateway.admin.internal_topics import find_offset
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.topics import Located, by_topic, each_partition, locate
from sharebroker_server.kafka_wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

_LATEST: Final = -1
_NONE: Final = -1

_Item = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
_Result = OffsetForLeaderEpochResponse.EpochEndOffset


async def handle(call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """Returns the log end offset for every epoch, since logs are never truncated at their end."""
    located = [
        locate(call, item, item.partition, item.current_leader_epoch, name=topic.topic)
        for topic in call.request.topics
        for item in topic.partitions
    ]
    results = await each_partition(
        located,
        lambda items: _ordinary(call, items),
        lambda items: _internal(call, items),
        lambda rejected: _failed(rejected.item, rejected.error.code),
    )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)
            for topic, partitions in by_topic(call.request.topics, results)
        ]
    )


async def _ordinary(call: Call, items: list[Located[_Item]]) -> list[_Result]:
    partition = pb.ListOffsetsRequest.Partition
    request = pb.ListOffsetsRequest(
        partitions=[
            partition(topic_id=topic.topic_id, partition=item.partition, timestamp=_LATEST)
            for topic, item in items
        ]
    )
    found = await list_offsets(call.gateway, request, call.deadline())
    return [
        _result(item, one.offset, ErrorCode(one.error_code))
        for (_, item), one in zip(items, found.partitions, strict=True)
    ]


async def _internal(call: Call, items: list[Located[_Item]]) -> list[_Result]:
    return await asyncio.gather(*(_internal_end(call, located) for located in items))


async def _internal_end(call: Call, located: Located[_Item]) -> _Result:
    topic, item = located
    try:
        end = await find_offset(call.gateway, topic.topic_id, item.partition, _LATEST)
        return _result(item, end.offset)
    except KafkaError as error:
        return _failed(item, error.code)


def _result(item: _Item, end: int, error: ErrorCode = ErrorCode.NONE) -> _Result:
    if error or item.leader_epoch == _NONE:
        return _failed(item, error)
    return _Result(partition=item.partition, leader_epoch=item.leader_epoch, end_offset=end)


def _failed(item: _Item, code: ErrorCode) -> _Result:
    return _Result(partition=item.partition, error_code=code)


_refuse = refusal(
    OffsetForLeaderEpochResponse, {"topics": "topics", "topics.partitions": "partitions"}, leader_epoch=_NONE
)
API = Api(23, (2, 4), handle, _refuse)
