"""Heartbeat (12): keeps a consumer in its group, and reports a rebalance."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator
from sharebroker_server.kafka_wire.messages import HeartbeatRequest, HeartbeatResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_request = to_proto(HeartbeatRequest, pb.HeartbeatRequest)


async def handle(call: Call[HeartbeatRequest]) -> HeartbeatResponse:
    """Raises REBALANCE_IN_PROGRESS after members joined or left."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    await call_coordinator(call, lambda stub: stub.Heartbeat, _request(call.request))
    return HeartbeatResponse()


API = Api(12, (0, 4), handle, Refusal(HeartbeatResponse))
