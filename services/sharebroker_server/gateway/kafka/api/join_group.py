"""JoinGroup (11): a consumer becomes a member of its group, and of the group's next generation."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator, instance_of, patience
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(11)
_ID_FIRST = 4
"""From this version on a member without an id is given one, and comes again with it."""

_NO_NAME = 7
"""From this version on a refusal names no protocol."""


async def handle(call: Call) -> Message:
    """Waits until all members of the group have joined; the leader learns who they are."""
    asked = call.request
    waits = patience(max(asked.rebalance_timeout_ms, asked.session_timeout_ms))
    joined = await coordinator(call, asked.group_id, lambda stub: stub.JoinGroup, _request(call), waits)
    return _R.JoinGroupResponse(
        generation_id=joined.generation_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader,
        member_id=joined.member_id,
        members=[
            _R.JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=instance_of(one),
                metadata=one.metadata,
            )
            for one in joined.members
        ],
    )


def _request(call: Call) -> pb.JoinGroupRequest:
    asked = call.request
    return pb.JoinGroupRequest(
        group_id=asked.group_id,
        member_id=asked.member_id,
        group_instance_id=asked.group_instance_id,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        protocol_type=asked.protocol_type,
        protocols=[
            pb.JoinGroupRequest.Protocol(name=one.name, metadata=bytes(one.metadata))
            for one in asked.protocols
        ],
        client_id=call.client_id,
        client_host=call.client.host,
        require_known_member_id=call.version >= _ID_FIRST,
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    given = error.metadata.get("member_id") if error.code is ErrorCode.MEMBER_ID_REQUIRED else None
    return _R.JoinGroupResponse(
        error_code=error.code,
        protocol_name="" if call.version < _NO_NAME else None,
        leader="",
        member_id=given or call.request.member_id,
        members=[],
    )


API = Api(11, (0, 9), handle, _refuse, waits=True)
