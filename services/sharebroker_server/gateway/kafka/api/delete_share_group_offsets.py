"""DeleteShareGroupOffsets (92): deletes the state of topics in an empty group."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.admin.groups import delete_offsets
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.kafka_wire.messages import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

_response = to_kafka(pb.DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponse)


async def handle(call: Call[DeleteShareGroupOffsetsRequest]) -> DeleteShareGroupOffsetsResponse:
    """Returns one result per topic."""
    group_id = call.request.group_id
    call.rights.require(AclOperation.DELETE, AclResourceType.GROUP, group_id)
    names = [topic.topic_name for topic in call.request.topics]
    readable = call.rights.permitted(AclOperation.READ, AclResourceType.TOPIC, names)
    response = DeleteShareGroupOffsetsResponse()
    if readable or not names:
        call.view.check_coordinates(group_id)
        permitted = [name for name in names if name in readable]
        request = pb.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=permitted)
        response = _response(await delete_offsets(call.gateway, request, call.deadline()))
    if not response.error_code:
        error = denied(AclResourceType.TOPIC)
        forbidden = [topic for topic in call.request.topics if topic.topic_name not in readable]
        refused = [_refuse.item("responses", topic, error) for topic in forbidden]
        response.responses = [*response.responses, *refused]
    return response


_refuse = Refusal(DeleteShareGroupOffsetsResponse)
API = Api(92, (0, 0), handle, _refuse, feature=SHARE)
