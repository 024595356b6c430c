"""LeaveGroup (13): consumers leave their group, and the others share what they had."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator, instance_of
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(13)
_MANY = 3
"""From this version on one request names several members, each with its own result."""


async def handle(call: Call) -> Message:
    """An administrator may name fixed members by their instance ids alone."""
    asked = call.request
    many = call.version >= _MANY
    request = pb.LeaveGroupRequest(group_id=asked.group_id)
    for one in asked.members if many else (asked,):
        instance_id = one.group_instance_id if many else None
        request.members.add(member_id=one.member_id, group_instance_id=instance_id)
    left = await coordinator(call, asked.group_id, lambda stub: stub.LeaveGroup, request, call.deadline())
    if not many:
        return _R.LeaveGroupResponse(error_code=left.members[0].error_code)
    return _R.LeaveGroupResponse(
        members=[
            _R.MemberResponse(
                member_id=one.member_id,
                group_instance_id=instance_of(one),
                error_code=one.error_code,
            )
            for one in left.members
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    """A group that is not there knows none of those who are named."""
    if call.version < _MANY or error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return _R.LeaveGroupResponse(error_code=error.code, members=[])
    return _R.LeaveGroupResponse(
        members=[
            _R.MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error.code
            )
            for one in call.request.members
        ]
    )


API = Api(13, (0, 5), handle, _refuse)
