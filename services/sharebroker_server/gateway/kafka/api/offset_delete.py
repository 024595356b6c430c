"""OffsetDelete (47): deletes committed offsets of a consumer group without members."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.groups import call_coordinator, known_partition
from sharebroker_server.kafka_wire.messages import OffsetDeleteRequest, OffsetDeleteResponse


async def handle(call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
    """Returns one result per partition; a partition without an offset is not an error."""
    group_id = call.request.group_id
    request = pb.OffsetDeleteRequest(group_id=group_id)
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic in call.request.topics:
        for partition in topic.partitions:
            try:
                topic_id = known_partition(call, topic.name, "", partition.partition_index)
            except KafkaError as error:
                errors[topic.name, partition.partition_index] = error.code
            else:
                request.partitions.add(topic_id=topic_id, partition=partition.partition_index)
    await call_coordinator(call, group_id, lambda stub: stub.OffsetDelete, request, call.deadline())
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors.get((topic.name, partition.partition_index), ErrorCode.NONE),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


API = Api(47, (0, 0), handle, refusal(OffsetDeleteResponse))
