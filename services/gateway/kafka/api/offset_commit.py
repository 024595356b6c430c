"""OffsetCommit (8): how far a consumer group has come, kept for whoever reads on."""

from __future__ import annotations

from typing import Any

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.consumer_groups import coordinator, known_partition
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.group_coordinator.v1 import consumer_groups_pb2 as pb

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
    errors: dict[tuple[str, str, int], int] = {}
    places: list[tuple[str, str, int]] = []
    for topic in asked.topics:
        for one in topic.partitions:
            place = (topic.name, topic.topic_id, one.partition_index)
            try:
                topic_id = known_partition(call, *place)
            except KafkaError as error:
                errors[place] = error.code
            else:
                places.append(place)
                _add(request, topic_id, one)
    if request.partitions or not errors:
        kept = await coordinator(
            call, asked.group_id, lambda stub: stub.OffsetCommit, request, call.deadline()
        )
        # A partition that is named twice has one result.
        by_id = {(one.topic_id, one.partition): one.error_code for one in kept.partitions}
        errors |= {
            place: by_id[sent.topic_id, sent.partition]
            for place, sent in zip(places, request.partitions, strict=True)
        }
    return _answer(call, errors)


def _add(request: pb.OffsetCommitRequest, topic_id: str, one: Any) -> None:
    request.partitions.add(
        topic_id=topic_id,
        partition=one.partition_index,
        committed_offset=one.committed_offset,
        committed_leader_epoch=one.committed_leader_epoch,
        metadata=one.committed_metadata or "",
    )


def _answer(call: Call, errors: dict[tuple[str, str, int], int], else_code: int = ErrorCode.NONE) -> Message:
    return _R.OffsetCommitResponse(
        topics=[
            _R.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _R.OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, topic.topic_id, one.partition_index), else_code),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _answer(call, {}, error.code)


API = Api(8, (2, 10), handle, _refuse)
