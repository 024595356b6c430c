"""ShareGroupHeartbeat (76): joins a share group, keeps a member in it, or leaves it."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.consume.membership import send_heartbeat
from sharebroker_server.gateway.core.validation import check_member_id
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.response_cache import HEARTBEAT, predict_heartbeat
from sharebroker_server.kafka_wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_request = to_proto(
    ShareGroupHeartbeatRequest, pb.ShareGroupHeartbeatRequest, omit=("subscribed_topic_names",)
)
_response = to_kafka(pb.ShareGroupHeartbeatResponse, ShareGroupHeartbeatResponse)


async def handle(call: Call[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse:
    """Returns the member's epoch, and its assignment if that changed or the request is a full one."""
    _authorize(call)
    check_group_id(call.request.group_id)
    check_member_id(call.request.member_id)
    call.view.check_coordinates(call.request.group_id)
    request = _request(
        call.request,
        client_id=call.client_id,
        client_host=call.client.host,
        principal=str(call.client.principal),
    )
    names = call.request.subscribed_topic_names
    if names is not None:
        request.subscribed_topic_names.CopyFrom(pb.TopicNames(names=names))
    return _response(await send_heartbeat(call.gateway.coordinators, request, call.deadline()))


def _authorize(call: Call[ShareGroupHeartbeatRequest]) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED if one subscribed topic is forbidden."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    for name in call.request.subscribed_topic_names or ():
        call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


_refuse = Refusal(ShareGroupHeartbeatResponse)
API = Api(HEARTBEAT, (1, 1), handle, _refuse, feature=SHARE, predict=predict_heartbeat)
