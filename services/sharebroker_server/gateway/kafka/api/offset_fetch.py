"""OffsetFetch (9): the committed offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import call_coordinator
from sharebroker_server.gateway.kafka.topics import PORTION, each_part, topic_by_id, topic_of
from sharebroker_server.kafka_wire.messages import OffsetFetchRequest, OffsetFetchResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_NONE: Final = -1
_ERROR_OF_REQUEST: Final = 2
"""From this version on the response has an error for the whole request."""

_GROUPS: Final = 50
"""Groups that are served at once."""

_FIRST_WITH_SEVERAL: Final = 8
"""The first version whose requests name several groups."""

_BY_ID: Final = 10
"""From this version on topics have ids instead of names."""

_SHOWN: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors of a topic that its partitions have. A topic of an unknown name has no offsets, as in Kafka."""

_RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic = OffsetFetchResponse.OffsetFetchResponseTopics
_Partition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Committed = pb.OffsetFetchResponse.Partition
_CommittedByKey = Mapping[tuple[str, int], _Committed]

_partition = to_kafka(pb.OffsetFetchResponse.Partition, _Partition, {"partition_index": "partition"})
_topic_before_several = to_kafka(_Topic, OffsetFetchResponse.OffsetFetchResponseTopic)


async def handle(call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    """Returns one group up to version 7, several from version 8 on; -1 means that no offset is committed."""
    if call.version >= _FIRST_WITH_SEVERAL:
        groups = await call.gateway.turns.gather(partial(_group, call), call.request.groups, _GROUPS)
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
    call.rights.require(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    request = pb.OffsetFetchRequest(group_id=group_id, require_stable=call.request.require_stable)
    found = await call_coordinator(call, lambda stub: stub.OffsetFetch, request)
    if topics is None:
        return await _all(call, found.partitions)
    committed: dict[tuple[str, int], _Committed] = {}
    async for portion in call.gateway.turns.portions(found.partitions, PORTION):
        committed.update(((one.topic_id, one.partition), one) for one in portion)
    return await _requested(call, topics, committed)


async def _all(call: Call[OffsetFetchRequest], committed: Iterable[_Committed]) -> list[_Topic]:
    """Returns all offsets, of the topics that the client may DESCRIBE."""
    partitions: dict[str, list[_Partition]] = {}
    async for portion in call.gateway.turns.portions(committed, PORTION):
        for one in portion:
            if one.committed_offset != _NONE:
                partitions.setdefault(one.topic_id, []).append(_result(one.partition, one))
    known = ((topic_by_id(call, topic_id), of_topic) for topic_id, of_topic in partitions.items())
    return [
        _Topic(name=topic.name, topic_id=topic.topic_id, partitions=of_topic)
        async for portion in call.gateway.turns.portions(known, PORTION)
        for topic, of_topic in portion
        if topic and call.rights.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
    ]


async def _requested(
    call: Call[OffsetFetchRequest], topics: Sequence[_RequestTopic], committed: _CommittedByKey
) -> list[_Topic]:
    """Returns the offsets of the topics, or their errors."""
    found: list[_Topic] = []
    partitions: list[_Partition] = []
    topic_id, refused = "", ErrorCode.NONE
    parts = each_part((topic, topic.partition_indexes) for topic in topics)
    async for portion in call.gateway.turns.portions(parts, PORTION):
        for topic, index in portion:
            if index is None:
                topic_id, refused = _permitted_id(call, topic)
                partitions = []
                found.append(_Topic(name=topic.name, topic_id=topic_id, partitions=partitions))
            elif refused:
                partitions.append(_no_offset(index, refused))
            else:
                partitions.append(_result(index, committed.get((topic_id, index))))
    return found


def _permitted_id(call: Call[OffsetFetchRequest], topic: _RequestTopic) -> tuple[str, ErrorCode]:
    """Returns the id of a topic that the client may DESCRIBE, or the error of its partitions."""
    topic_id: str = getattr(topic, "topic_id", "")
    name = topic.name if call.version < _BY_ID else None
    try:
        return topic_of(call, AclOperation.DESCRIBE, name, topic_id).topic_id, ErrorCode.NONE
    except KafkaError as error:
        return topic_id, error.code if error.code in _SHOWN else ErrorCode.NONE


def _result(index: int, committed: _Committed | None) -> _Partition:
    if committed is None or committed.error_code:
        return _no_offset(index, committed.error_code if committed else 0)
    return _partition(committed)


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
