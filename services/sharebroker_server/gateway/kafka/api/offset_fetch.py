"""OffsetFetch (9): the committed offsets of consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.groups import call_coordinator
from sharebroker_server.gateway.kafka.topics import topic_by_id, topic_of
from sharebroker_server.kafka_wire.messages import OffsetFetchRequest, OffsetFetchResponse

_NONE: Final = -1
_FIRST_WITH_SEVERAL: Final = 8
"""The first version whose requests name several groups."""

_Topics = Sequence[OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics]
_Committed = dict[tuple[str, int], pb.OffsetFetchResponse.Partition]
P = TypeVar(
    "P", OffsetFetchResponse.OffsetFetchResponsePartition, OffsetFetchResponse.OffsetFetchResponsePartitions
)


async def handle(call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    """Returns one group up to version 7, several from version 8 on; -1 means that no offset is committed."""
    if call.version >= _FIRST_WITH_SEVERAL:
        return OffsetFetchResponse(
            groups=await asyncio.gather(*(_group(call, group) for group in call.request.groups))
        )
    committed = await _fetch(call, call.request.group_id)
    shape = OffsetFetchResponse.OffsetFetchResponsePartition
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=name, partitions=_partitions(shape, topic_id, indexes, committed)
            )
            for name, topic_id, indexes in _requested(call, call.request.topics, committed)
        ]
    )


async def _group(
    call: Call[OffsetFetchRequest], group: OffsetFetchRequest.OffsetFetchRequestGroup
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    try:
        committed = await _fetch(call, group.group_id)
    except KafkaError as error:
        return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    shape = OffsetFetchResponse.OffsetFetchResponsePartitions
    return OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=_partitions(shape, topic_id, indexes, committed),
            )
            for name, topic_id, indexes in _requested(call, group.topics, committed)
        ],
    )


async def _fetch(call: Call[OffsetFetchRequest], group_id: str) -> _Committed:
    request = pb.OffsetFetchRequest(group_id=group_id, require_stable=call.request.require_stable)
    found = await call_coordinator(call, group_id, lambda stub: stub.OffsetFetch, request, call.deadline())
    return {(one.topic_id, one.partition): one for one in found.partitions}


def _requested(
    call: Call, topics: _Topics | None, committed: _Committed
) -> list[tuple[str, str, Sequence[int]]]:
    """Returns name, id and partitions of each requested topic; for null, of all topics with offsets."""
    if topics is not None:
        return [(topic.name, _topic_id(call, topic), topic.partition_indexes) for topic in topics]
    found: dict[str, list[int]] = {}
    for (topic_id, index), one in committed.items():
        if one.committed_offset != _NONE:
            found.setdefault(topic_id, []).append(index)
    known = ((topic_by_id(call, topic_id), indexes) for topic_id, indexes in found.items())
    return [(topic.name, topic.topic_id, indexes) for topic, indexes in known if topic is not None]


def _topic_id(
    call: Call,
    topic: OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics,
) -> str:
    topic_id: str = getattr(topic, "topic_id", "")
    try:
        return topic_of(call, topic.name, topic_id).topic_id
    except KafkaError:
        return topic_id  # an unknown topic has no offsets


def _partitions(shape: type[P], topic_id: str, indexes: Sequence[int], committed: _Committed) -> list[P]:
    partitions = []
    for index in indexes:
        found = committed.get((topic_id, index))
        if found is None or found.error_code:
            code = found.error_code if found else 0
            partition = shape(partition_index=index, committed_offset=_NONE, metadata="", error_code=code)
        else:
            partition = shape(
                partition_index=index,
                committed_offset=found.committed_offset,
                committed_leader_epoch=found.committed_leader_epoch,
                metadata=found.metadata,
            )
        partitions.append(partition)
    return partitions


_refuse = refusal(
    OffsetFetchResponse,
    {
        "topics": "topics",
        "topics.partitions": "partition_indexes",
        "topics.partitions.partition_index": int,
        "groups": "groups",
    },
    committed_offset=_NONE,
    metadata="",
)
API = Api(9, (1, 10), handle, _refuse)
