"""SyncGroup (14): the assignment of a consumer; the group's leader sends the assignments of all members."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, rebalance_deadline
from sharebroker_server.kafka_wire.messages import SyncGroupRequest, SyncGroupResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_REQUIRES_PROTOCOL: Final = 5
"""From this version on requests must have the protocol that the members agreed on."""

_request = to_proto(SyncGroupRequest, pb.SyncGroupRequest)
_response = to_kafka(pb.SyncGroupResponse, SyncGroupResponse)


async def handle(call: Call[SyncGroupRequest]) -> SyncGroupResponse:
    """Waits for the group's leader. Raises INCONSISTENT_GROUP_PROTOCOL for a request without a protocol."""
    protocol = (call.request.protocol_type, call.request.protocol_name)
    if call.version >= _REQUIRES_PROTOCOL and None in protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    request, deadline = _request(call.request), rebalance_deadline()
    return _response(await call_coordinator(call, lambda stub: stub.SyncGroup, request, deadline=deadline))


API = Api(14, (0, 5), handle, Refusal(SyncGroupResponse, assignment=b""), waits=True)
