"""AlterShareGroupOffsets (91): sets the start offsets of an empty group."""

from __future__ import annotations

from collections.abc import Set

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.admin.groups import alter_offsets
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import PORTION, convert_parts, each_part
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

_NAMES = {"partition_index": "partition"}
_Partition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
_ResultTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_Result = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
_request = to_proto(AlterShareGroupOffsetsRequest, pb.AlterShareGroupOffsetsRequest, omit=("topics",))
_partition = to_proto(_Partition, pb.AlterShareGroupOffsetsRequest.Partition, _NAMES)
_response = to_kafka(pb.AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponse, omit=("responses",))
_topic = to_kafka(pb.AlterShareGroupOffsetsResponse.Topic, _ResultTopic, omit=("partitions",))
_result = to_kafka(pb.AlterShareGroupOffsetsResponse.Partition, _Result, _NAMES)


async def handle(call: Call[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
    """Returns one result per partition; creates a group that does not exist."""
    group_id, topics = call.request.group_id, call.request.topics
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, group_id)
    deadline, readable = call.deadline(), set[str]()
    async for names in call.gateway.turns.portions((topic.topic_name for topic in topics), PORTION):
        readable |= call.rights.permitted(AclOperation.READ, AclResourceType.TOPIC, names)
    response = AlterShareGroupOffsetsResponse()
    if readable or not topics:
        call.view.check_coordinates(group_id)
        request = await _permitted(call, readable)
        altered = await alter_offsets(call.gateway, request, deadline)
        response = _response(altered, responses=await _results(call, altered))
    if not response.error_code:
        error = denied(AclResourceType.TOPIC)
        forbidden = [topic for topic in topics if topic.topic_name not in readable]
        refused = [_refuse_topics.item("responses", topic, error) for topic in forbidden]
        response.responses = [*response.responses, *refused]
    return response


async def _permitted(
    call: Call[AlterShareGroupOffsetsRequest], readable: Set[str]
) -> pb.AlterShareGroupOffsetsRequest:
    """Returns the request for topics that the client may READ."""
    request = _request(call.request)
    parts = each_part(
        (topic, topic.partitions) for topic in call.request.topics if topic.topic_name in readable
    )
    async for portion in call.gateway.turns.portions(parts, PORTION):
        for topic, partition in portion:
            if partition is None:
                request.topics.add(topic_name=topic.topic_name)
            else:
                request.topics[-1].partitions.append(_partition(partition))
    return request


async def _results(
    call: Call[AlterShareGroupOffsetsRequest], altered: pb.AlterShareGroupOffsetsResponse
) -> list[_ResultTopic]:
    topics = ((topic, topic.partitions) for topic in altered.responses)
    return await convert_parts(
        call.gateway.turns, topics, lambda topic, parts: _topic(topic, partitions=parts), _result
    )


_refuse_topics = Refusal(AlterShareGroupOffsetsResponse, {"responses.partitions": "partitions"})
API = Api(91, (0, 0), handle, Refusal(AlterShareGroupOffsetsResponse), feature=SHARE)
