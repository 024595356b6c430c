"""LeaveGroup (13): removes consumers from their group; the remaining members receive their partitions."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator
from sharebroker_server.kafka_wire.messages import LeaveGroupRequest, LeaveGroupResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_FIRST_WITH_SEVERAL: Final = 3
"""From this version on one request names several members, each with its own result."""

_request = to_proto(LeaveGroupRequest, pb.LeaveGroupRequest)
_response = to_kafka(pb.LeaveGroupResponse, LeaveGroupResponse)


async def handle(call: Call[LeaveGroupRequest]) -> LeaveGroupResponse:
    """Removes members by their ids, or static members by their instance ids."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    several, request = call.version >= _FIRST_WITH_SEVERAL, _request(call.request)
    if not several:
        request.members.add(member_id=call.request.member_id)
    result = await call_coordinator(call, lambda stub: stub.LeaveGroup, request)
    return _response(result) if several else LeaveGroupResponse(error_code=result.members[0].error_code)


_members = Refusal(LeaveGroupResponse)


def _refuse(call: Call[LeaveGroupRequest], error: KafkaError) -> LeaveGroupResponse:
    """Returns the error; if the group is unknown, each named member has the error."""
    if call.version < _FIRST_WITH_SEVERAL or error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=error.code, members=[])
    members = [_members.item("members", member, error) for member in call.request.members]
    return LeaveGroupResponse(members=members)


API = Api(13, (0, 5), handle, _refuse)
