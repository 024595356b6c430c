"""DescribeShareGroupOffsets (90): start offsets and lag of share groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.admin.groups import describe_offsets
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.gateway.kafka.topics import convert_parts
from sharebroker_server.kafka_wire.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

_Describable = Callable[[str], bool]
_RequestedGroup = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
_Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_request = to_proto(
    DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
    pb.DescribeShareGroupOffsetsRequest.Group,
)
_Topic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
_Partition = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
_FoundTopic = pb.DescribeShareGroupOffsetsResponse.Topic
_Found = pb.DescribeShareGroupOffsetsResponse.Partition
_group = to_kafka(pb.DescribeShareGroupOffsetsResponse.Group, _Group, omit=("topics",))
_topic = to_kafka(_FoundTopic, _Topic, omit=("partitions",))
_partition = to_kafka(_Found, _Partition, {"partition_index": "partition"})


async def handle(call: Call[DescribeShareGroupOffsetsRequest]) -> DescribeShareGroupOffsetsResponse:
    """Returns one result per group; an unknown group has no topics, which is not an error."""
    groups = {group.group_id: group for group in call.request.groups}
    describable = _describable(call)

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        request = pb.DescribeShareGroupOffsetsRequest(
            groups=[_permitted(groups[group_id], describable) for group_id in group_ids]
        )
        found = (await describe_offsets(call.gateway, request, call.deadline())).groups
        return [await _described(call, groups[group.group_id], group) for group in found]

    def rejected(group_id: str, error: KafkaError) -> _Group:
        return _refuse.item("groups", groups[group_id], error)  # type: ignore[no-any-return]

    return DescribeShareGroupOffsetsResponse(
        groups=await each_group(call, AclOperation.DESCRIBE, groups, serve, rejected)
    )


def _describable(call: Call[DescribeShareGroupOffsetsRequest]) -> _Describable:
    """Returns a check of the permission to DESCRIBE a topic by name."""
    return lambda name: call.rights.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _permitted(
    group: _RequestedGroup, describable: _Describable
) -> pb.DescribeShareGroupOffsetsRequest.Group:
    """Returns the request for those topics of a group that the client may DESCRIBE."""
    request = _request(group, all_topics=group.topics is None)
    permitted = [topic for topic in request.topics if describable(topic.topic_name)]
    del request.topics[:]
    request.topics.extend(permitted)
    return request


async def _described(
    call: Call[DescribeShareGroupOffsetsRequest],
    requested: _RequestedGroup,
    found: pb.DescribeShareGroupOffsetsResponse.Group,
) -> _Group:
    """Returns a group: a named topic that is forbidden has the error, any other forbidden one is left out."""
    group, describable = _group(found, topics=[]), _describable(call)
    if group.error_code:
        return group
    named = [topic.topic_name for topic in requested.topics or ()]
    permitted = call.rights.permitted(AclOperation.DESCRIBE, AclResourceType.TOPIC, named)
    error = denied(AclResourceType.TOPIC)
    group.topics = [
        *[topic for topic in await _topics(call, found) if describable(topic.topic_name)],
        *(
            _refuse_topics.item("groups.topics", topic, error)
            for topic in requested.topics or ()
            if topic.topic_name not in permitted
        ),
    ]
    return group


async def _topics(
    call: Call[DescribeShareGroupOffsetsRequest], found: pb.DescribeShareGroupOffsetsResponse.Group
) -> list[_Topic]:
    """Returns the topics of a group, converted in portions."""
    topics = ((topic, topic.partitions) for topic in found.topics)
    return await convert_parts(
        call.gateway.turns, topics, lambda topic, parts: _topic(topic, partitions=parts), _partition
    )


_refuse_topics = Refusal(
    DescribeShareGroupOffsetsResponse,
    {"groups.topics.partitions": "partitions", "groups.topics.partitions.partition_index": int},
)
_refuse = Refusal(DescribeShareGroupOffsetsResponse, {"groups": "groups"})
API = Api(90, (0, 1), handle, _refuse, feature=SHARE)
