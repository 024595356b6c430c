"""OffsetCommit (8): how far a consumer group has come, kept for whoever reads on."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.consumer_groups import committed, coordinator, not_committed
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(8)


async def handle(call: Call) -> Message:
    """Each partition has its own result."""
    asked = call.request
    request = pb.OffsetCommitRequest(
        group_id=asked.group_id,
        generation_id=asked.generation_id_or_member_epoch,
        member_id=asked.member_id,
        group_instance_id=asked.group_instance_id,
    )

    async def send() -> pb.OffsetCommitResponse:
        return await coordinator(
            call, asked.group_id, lambda stub: stub.OffsetCommit, request, call.deadline()
        )

    return _answer(await committed(call, request, send))


def _answer(topics: list[tuple[Any, list[tuple[int, int]]]]) -> Message:
    return _R.OffsetCommitResponse(
        topics=[
            _R.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _R.OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in some
                ],
            )
            for topic, some in topics
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _answer(not_committed(call, error.code))


API = Api(8, (2, 10), handle, _refuse)
