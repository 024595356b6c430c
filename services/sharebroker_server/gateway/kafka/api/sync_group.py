"""SyncGroup (14): what a consumer is assigned; the leader says it for all."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import (
    LONGEST_REBALANCE_MS,
    coordinator,
    patience,
)
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(14)
_TELLS_PROTOCOL = 5
"""From this version on members have to tell the protocol they agreed on."""


async def handle(call: Call) -> Message:
    """Waits for the leader. Raises INCONSISTENT_GROUP_PROTOCOL where its protocol is not told."""
    asked = call.request
    if call.version >= _TELLS_PROTOCOL and None in (asked.protocol_type, asked.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    request = pb.SyncGroupRequest(
        group_id=asked.group_id,
        generation_id=asked.generation_id,
        member_id=asked.member_id,
        group_instance_id=asked.group_instance_id,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignments=[
            pb.SyncGroupRequest.Assignment(member_id=one.member_id, assignment=bytes(one.assignment))
            for one in asked.assignments
        ],
    )
    waits = patience(LONGEST_REBALANCE_MS)
    synced = await coordinator(call, asked.group_id, lambda stub: stub.SyncGroup, request, waits)
    return _R.SyncGroupResponse(
        protocol_type=synced.protocol_type, protocol_name=synced.protocol_name, assignment=synced.assignment
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.SyncGroupResponse(error_code=error.code, assignment=b"")


API = Api(14, (0, 5), handle, _refuse, waits=True)
