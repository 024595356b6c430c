"""AlterShareGroupOffsets (91): where an empty group goes on reading."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import alter_offsets
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(91)
Asked = pb.AlterShareGroupOffsetsRequest


async def handle(call: Call) -> Message:
    """Each partition has its own result; makes a group that does not exist."""
    call.view.check_coordinates(call.request.group_id)
    asked = Asked(group_id=call.request.group_id, topics=[_asked(topic) for topic in call.request.topics])
    altered = await alter_offsets(call.gateway, asked, call.deadline())
    return _R.AlterShareGroupOffsetsResponse(
        error_code=altered.error_code,
        error_message=altered.error_message or None,
        responses=[_topic(topic) for topic in altered.responses],
    )


def _asked(topic: Any) -> Asked.Topic:
    return Asked.Topic(
        topic_name=topic.topic_name,
        partitions=[
            Asked.Partition(partition=part.partition_index, start_offset=part.start_offset)
            for part in topic.partitions
        ],
    )


def _topic(topic: pb.AlterShareGroupOffsetsResponse.Topic) -> Message:
    return _R.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=[
            _R.AlterShareGroupOffsetsResponsePartition(
                partition_index=part.partition,
                error_code=part.error_code,
                error_message=part.error_message or None,
            )
            for part in topic.partitions
        ],
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)


API = Api(91, (0, 0), handle, _refuse, feature=SHARE)
