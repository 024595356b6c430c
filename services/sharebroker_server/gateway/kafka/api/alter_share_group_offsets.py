"""AlterShareGroupOffsets (91): sets the start offsets of an empty group."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import alter_offsets
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

_NAMES = {"partition_index": "partition"}
_Topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
_request = to_proto(AlterShareGroupOffsetsRequest, pb.AlterShareGroupOffsetsRequest, omit=("topics",))
_topic = to_proto(_Topic, pb.AlterShareGroupOffsetsRequest.Topic, _NAMES)
_response = to_kafka(pb.AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponse, _NAMES)


async def handle(call: Call[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
    """Returns one result per partition; creates a group that does not exist."""
    group_id, topics = call.request.group_id, call.request.topics
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, group_id)
    names = (topic.topic_name for topic in topics)
    readable = call.rights.permitted(AclOperation.READ, AclResourceType.TOPIC, names)
    response = AlterShareGroupOffsetsResponse()
    if readable or not topics:
        call.view.check_coordinates(group_id)
        request = _request(call.request)
        request.topics.extend(_topic(topic) for topic in topics if topic.topic_name in readable)
        response = _response(await alter_offsets(call.gateway, request, call.deadline()))
    if not response.error_code:
        error = denied(AclResourceType.TOPIC)
        forbidden = [topic for topic in topics if topic.topic_name not in readable]
        refused = [_refuse_topics.item("responses", topic, error) for topic in forbidden]
        response.responses = [*response.responses, *refused]
    return response


_refuse_topics = Refusal(AlterShareGroupOffsetsResponse, {"responses.partitions": "partitions"})
API = Api(91, (0, 0), handle, Refusal(AlterShareGroupOffsetsResponse), feature=SHARE)
