"""Heartbeat (12): a consumer stays in its group, or hears that it is to join again."""

from __future__ import annotations

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.consumer_groups import coordinator
from sharebroker.errors import KafkaError
from sharebroker.group_coordinator.v1 import consumer_groups_pb2 as pb

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
