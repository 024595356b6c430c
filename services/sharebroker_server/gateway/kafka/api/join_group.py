"""JoinGroup (11): makes a consumer a member of its group and of the group's next generation."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, rebalance_deadline
from sharebroker_server.kafka_wire.messages import JoinGroupRequest, JoinGroupResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_ID_FIRST: Final = 4
"""From this version on a member without an id receives one, and joins again with it."""

_NULL_PROTOCOL: Final = 7
"""From this version on the protocol of a refusal is null."""

_request = to_proto(JoinGroupRequest, pb.JoinGroupRequest)
_response = to_kafka(pb.JoinGroupResponse, JoinGroupResponse)


async def handle(call: Call[JoinGroupRequest]) -> JoinGroupResponse:
    """Waits until all members of the group have joined; the group's leader receives the members."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    member = call.request
    request = _request(
        member,
        client_id=call.client_id,
        client_host=call.client.host,
        require_known_member_id=call.version >= _ID_FIRST,
    )
    deadline = rebalance_deadline(max(member.rebalance_timeout_ms, member.session_timeout_ms))
    return _response(await call_coordinator(call, lambda stub: stub.JoinGroup, request, deadline=deadline))


def _refuse(call: Call[JoinGroupRequest], error: KafkaError) -> JoinGroupResponse:
    assigned = error.metadata.get("member_id") if error.code is ErrorCode.MEMBER_ID_REQUIRED else None
    return JoinGroupResponse(
        error_code=error.code,
        protocol_name="" if call.version < _NULL_PROTOCOL else None,
        leader="",
        member_id=assigned or call.request.member_id,
        members=[],
    )


API = Api(11, (0, 9), handle, _refuse, waits=True)
