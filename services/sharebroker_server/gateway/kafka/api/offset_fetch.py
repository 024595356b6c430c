"""OffsetFetch (9): the offsets that consumer groups have committed."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator
from sharebroker_server.gateway.kafka.helpers.topics import topic_by_id, topic_of
from sharebroker_server.kafka_wire.message_classes import Message, Shapes, response_shapes

_R: Final[Shapes] = response_shapes(9)
_NONE: Final = -1
_FIRST_OF_MANY_GROUPS: Final = 8

Kept = dict[tuple[str, int], pb.OffsetFetchResponse.Partition]


async def handle(call: Call) -> Message:
    """One group in the form up to version 7, many from version 8 on; -1 where nothing is committed."""
    if call.version >= _FIRST_OF_MANY_GROUPS:
        return _R.OffsetFetchResponse(
            groups=await asyncio.gather(*(_group(call, asked) for asked in call.request.groups))
        )
    kept = await _kept(call, call.request.group_id)
    asked = _asked(call, call.request.topics, kept)
    return _R.OffsetFetchResponse(
        topics=[
            _R.OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    _row(_R.OffsetFetchResponsePartition, index, kept.get((topic_id, index)))
                    for index in some
                ],
            )
            for name, topic_id, some in asked
        ]
    )


async def _group(call: Call, group: Any) -> Message:
    try:
        kept = await _kept(call, group.group_id)
    except KafkaError as error:
        return _R.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return _R.OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            _R.OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=[
                    _row(_R.OffsetFetchResponsePartitions, index, kept.get((topic_id, index)))
                    for index in some
                ],
            )
            for name, topic_id, some in _asked(call, group.topics, kept)
        ],
    )


async def _kept(call: Call, group_id: str) -> Kept:
    stable = getattr(call.request, "require_stable", False)
    request = pb.OffsetFetchRequest(group_id=group_id, require_stable=stable)
    found = await coordinator(call, group_id, lambda stub: stub.OffsetFetch, request, call.deadline())
    return {(one.topic_id, one.partition): one for one in found.partitions}


def _asked(call: Call, topics: Any, kept: Kept) -> list[tuple[str, str, list[int]]]:
    """Name, id and partitions of each topic that is asked for; without any, of all that have offsets."""
    if topics is not None:
        return [(one.name, _id(call, one), one.partition_indexes) for one in topics]
    found: dict[str, list[int]] = {}
    for (topic_id, index), one in kept.items():
        if one.committed_offset != _NONE:
            found.setdefault(topic_id, []).append(index)
    known = ((topic_by_id(call, topic_id), some) for topic_id, some in found.items())
    return [(topic.name, topic.topic_id, some) for topic, some in known if topic is not None]


def _id(call: Call, asked: Any) -> str:
    given: str = getattr(asked, "topic_id", "")
    try:
        return topic_of(call, asked.name, given).topic_id
    except KafkaError:
        return given  # nothing is committed of a topic that is not there


def _row(shape: type[Message], index: int, kept: pb.OffsetFetchResponse.Partition | None) -> Message:
    if kept is None or kept.error_code:
        code = kept.error_code if kept else ErrorCode.NONE
        return shape(partition_index=index, committed_offset=_NONE, metadata="", error_code=code)
    return shape(
        partition_index=index,
        committed_offset=kept.committed_offset,
        committed_leader_epoch=kept.committed_leader_epoch,
        metadata=kept.metadata,
        error_code=ErrorCode.NONE,
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    if call.version >= _FIRST_OF_MANY_GROUPS:
        return _R.OffsetFetchResponse(
            groups=[
                _R.OffsetFetchResponseGroup(group_id=one.group_id, error_code=error.code)
                for one in call.request.groups
            ]
        )
    # The oldest form has no error but those of partitions.
    return _R.OffsetFetchResponse(
        error_code=error.code,
        topics=[
            _R.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _R.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=_NONE, metadata="", error_code=error.code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in call.request.topics or ()
        ],
    )


API = Api(9, (1, 10), handle, _refuse)
