"""Heartbeat (12): a consumer stays in its group, or hears that it is to join again."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(12)


async def handle(call: Call) -> Message:
    """Raises REBALANCE_IN_PROGRESS where others came or went."""
    asked = call.request
    request = pb.HeartbeatRequest(
        group_id=asked.group_id,
        generation_id=asked.generation_id,
        member_id=asked.member_id,
        group_instance_id=asked.group_instance_id,
    )
    await coordinator(call, asked.group_id, lambda stub: stub.Heartbeat, request, call.deadline())
    return _R.HeartbeatResponse()


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.HeartbeatResponse(error_code=error.code)


API = Api(12, (0, 4), handle, _refuse)
