"""ShareGroupHeartbeat (76): joining a share group, staying in it, leaving it."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.consume.membership import send_heartbeat
from sharebroker_server.gateway.core.validation import check_member_id
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.gateway.kafka.idle.share_group_heartbeat import HEARTBEAT, quiet_heartbeat
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(HEARTBEAT)


async def handle(call: Call) -> Message:
    """The member's epoch, and its partitions when they changed or it asked anew."""
    request = call.request
    check_group_id(request.group_id)
    check_member_id(request.member_id)
    call.view.check_coordinates(request.group_id)
    answer = await send_heartbeat(call.gateway.coordinators, _request(call), call.deadline())
    return _R.ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=_assignment(answer),
    )


def _request(call: Call) -> pb.ShareGroupHeartbeatRequest:
    request = call.request
    names = request.subscribed_topic_names
    return pb.ShareGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed_topic_names=None if names is None else pb.TopicNames(names=names),
        client_id=call.client_id,
        client_host=call.client.host,
    )


def _assignment(answer: pb.ShareGroupHeartbeatResponse) -> Any:
    if not answer.HasField("assignment"):
        return None
    return _R.Assignment(
        topic_partitions=[
            _R.TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
            for topic in answer.assignment.topic_partitions
        ]
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


API = Api(HEARTBEAT, (1, 1), handle, _refuse, feature=SHARE, expected=quiet_heartbeat)
