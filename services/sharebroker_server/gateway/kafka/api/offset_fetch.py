"""OffsetFetch (9): the committed offsets of consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.authorization import allows, require
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import call_coordinator
from sharebroker_server.gateway.kafka.topics import topic_by_id, topic_of
from sharebroker_server.kafka_wire.messages import OffsetFetchRequest, OffsetFetchResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_NONE: Final = -1
_ERROR_OF_REQUEST: Final = 2
"""From this version on the response has an error for the whole request."""

_PORTION: Final = 50
"""Groups that are served at once."""

_FIRST_WITH_SEVERAL: Final = 8
"""The first version whose requests name several groups."""

_RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic = OffsetFetchResponse.OffsetFetchResponseTopics
_Partition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Committed = dict[tuple[str, int], pb.OffsetFetchResponse.Partition]

_partition = to_kafka(pb.OffsetFetchResponse.Partition, _Partition, {"partition_index": "partition"})
_topic_before_several = to_kafka(_Topic, OffsetFetchResponse.OffsetFetchResponseTopic)


async def handle(call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    """Returns one group up to version 7, several from version 8 on; -1 means that no offset is committed."""
    if call.version >= _FIRST_WITH_SEVERAL:
        groups, remaining = list[_Group](), iter(call.request.groups)
        while portion := [*islice(remaining, _PORTION)]:
            groups += await asyncio.gather(*(_group(call, group) for group in portion))
            await call.gateway.turns.next()
        return OffsetFetchResponse(groups=groups)
    topics = await _topics(call, call.request.group_id, call.request.topics)
    return OffsetFetchResponse(topics=list(map(_topic_before_several, topics)))


async def _group(
    call: Call[OffsetFetchRequest], group: OffsetFetchRequest.OffsetFetchRequestGroup
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    try:
        return _Group(group_id=group.group_id, topics=await _topics(call, group.group_id, group.topics))
    except KafkaError as error:
        return _Group(group_id=group.group_id, error_code=error.code)


async def _topics(
    call: Call[OffsetFetchRequest], group_id: str, topics: Sequence[_RequestTopic] | None
) -> list[_Topic]:
    """Returns the offsets of the requested topics; for null, of all topics with offsets."""
    require(call, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    request = pb.OffsetFetchRequest(group_id=group_id, require_stable=call.request.require_stable)
    found = await call_coordinator(call, lambda stub: stub.OffsetFetch, request)
    committed = {(one.topic_id, one.partition): one for one in found.partitions}
    if topics is not None:
        return [_requested(call, topic, committed) for topic in topics]
    indexes: dict[str, list[int]] = {}
    for (topic_id, index), one in committed.items():
        if one.committed_offset != _NONE:
            indexes.setdefault(topic_id, []).append(index)
    known = ((topic_by_id(call, topic_id), of_topic) for topic_id, of_topic in indexes.items())
    return [
        _topic(topic.name, topic.topic_id, of_topic, committed)
        for topic, of_topic in known
        if topic and allows(call, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
    ]


def _requested(call: Call[OffsetFetchRequest], topic: _RequestTopic, committed: _Committed) -> _Topic:
    """Returns the offsets of a topic; an unknown topic has none."""
    topic_id: str = getattr(topic, "topic_id", "")
    try:
        topic_id = topic_of(call, AclOperation.DESCRIBE, topic.name, topic_id).topic_id
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            refused = [_no_offset(index, error.code) for index in topic.partition_indexes]
            return _Topic(name=topic.name, topic_id=topic_id, partitions=refused)
    return _topic(topic.name, topic_id, topic.partition_indexes, committed)


def _topic(name: str, topic_id: str, indexes: Sequence[int], committed: _Committed) -> _Topic:
    partitions = []
    for index in indexes:
        found = committed.get((topic_id, index))
        if found is None or found.error_code:
            partition = _no_offset(index, found.error_code if found else 0)
        else:
            partition = _partition(found)
        partitions.append(partition)
    return _Topic(name=name, topic_id=topic_id, partitions=partitions)


def _no_offset(index: int, code: int) -> _Partition:
    return _Partition(partition_index=index, committed_offset=_NONE, metadata="", error_code=code)


_each_partition = Refusal(
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


def _refuse(call: Call[OffsetFetchRequest], error: KafkaError) -> OffsetFetchResponse:
    """Returns the error; of a forbidden group only the request has it, from version 2 to 7."""
    forbidden = error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    if forbidden and _ERROR_OF_REQUEST <= call.version < _FIRST_WITH_SEVERAL:
        return OffsetFetchResponse(error_code=error.code, topics=[])
    return _each_partition(call, error)


API = Api(9, (1, 10), handle, _refuse)
