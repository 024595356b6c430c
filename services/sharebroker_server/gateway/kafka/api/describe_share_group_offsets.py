"""DescribeShareGroupOffsets (90): start offsets and lag of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import describe_offsets
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import each_group
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(90)
Asked = pb.DescribeShareGroupOffsetsRequest
Described = pb.DescribeShareGroupOffsetsResponse


async def handle(call: Call) -> Message:
    """A group that is not known has no topics, and that is no error."""
    groups = {group.group_id: group for group in call.request.groups}

    async def ask(group_ids: Sequence[str]) -> Iterable[Message]:
        request = Asked(groups=[_asked(groups[group_id]) for group_id in group_ids])
        return map(_group, (await describe_offsets(call.gateway, request, call.deadline())).groups)

    return _R.DescribeShareGroupOffsetsResponse(groups=await each_group(call, groups, ask, _refused))


def _asked(group: Any) -> Asked.Group:
    topics = [
        Asked.Topic(topic_name=topic.topic_name, partitions=topic.partitions) for topic in group.topics or ()
    ]
    return Asked.Group(group_id=group.group_id, all_topics=group.topics is None, topics=topics)


def _group(group: Described.Group) -> Message:
    return _R.DescribeShareGroupOffsetsResponseGroup(
        group_id=group.group_id,
        topics=[_topic(topic) for topic in group.topics],
        error_code=group.error_code,
        error_message=group.error_message or None,
    )


def _topic(topic: Described.Topic) -> Message:
    return _R.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=[
            _R.DescribeShareGroupOffsetsResponsePartition(
                partition_index=part.partition,
                start_offset=part.start_offset,
                leader_epoch=part.leader_epoch,
                lag=part.lag,
                error_code=part.error_code,
                error_message=part.error_message or None,
            )
            for part in topic.partitions
        ],
    )


def _refused(group_id: str, error: KafkaError) -> Message:
    return _R.DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error.code, error_message=error.message
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    groups = [_refused(group.group_id, error) for group in call.request.groups]
    return _R.DescribeShareGroupOffsetsResponse(groups=groups)


API = Api(90, (0, 1), handle, _refuse, feature=SHARE)
