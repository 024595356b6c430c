"""OffsetDelete (47): offsets that a consumer group without members forgets."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator, known_partition
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(47)


async def handle(call: Call) -> Message:
    """What had no offset is fine; a partition that is not there has its own result."""
    asked = call.request
    request = pb.OffsetDeleteRequest(group_id=asked.group_id)
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic in asked.topics:
        for one in topic.partitions:
            try:
                topic_id = known_partition(call, topic.name, "", one.partition_index)
            except KafkaError as error:
                errors[topic.name, one.partition_index] = error.code
            else:
                request.partitions.add(topic_id=topic_id, partition=one.partition_index)
    await coordinator(call, asked.group_id, lambda stub: stub.OffsetDelete, request, call.deadline())
    return _R.OffsetDeleteResponse(
        topics=[
            _R.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    _R.OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, one.partition_index), ErrorCode.NONE),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.OffsetDeleteResponse(error_code=error.code)


API = Api(47, (0, 0), handle, _refuse)
