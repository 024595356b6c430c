"""ShareGroupDescribe (77): groups with their members and what these are assigned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import describe_groups
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.gateway.kafka.helpers import authorized_operations
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import each_group
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(77)


async def handle(call: Call) -> Message:
    """A group that cannot be described has the error in its own entry."""

    async def ask(group_ids: Sequence[str]) -> Iterable[Message]:
        request = pb.ShareGroupDescribeRequest(group_ids=group_ids)
        described = await describe_groups(call.gateway, request, call.deadline())
        return (_group(call, group) for group in described.groups)

    return _R.ShareGroupDescribeResponse(groups=await each_group(call, call.request.group_ids, ask, _refused))


def _group(call: Call, group: pb.ShareGroupDescribeResponse.DescribedGroup) -> Message:
    return _R.DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=group.group_state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name,
        members=[_member(member) for member in group.members],
        authorized_operations=authorized_operations.of_group(
            asked=call.request.include_authorized_operations and not group.error_code
        ),
    )


def _member(member: pb.ShareGroupDescribeResponse.Member) -> Message:
    return _R.Member(
        member_id=member.member_id,
        rack_id=member.rack_id if member.HasField("rack_id") else None,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        assignment=_R.Assignment(
            topic_partitions=[
                _R.TopicPartitions(
                    topic_id=topic.topic_id, topic_name=topic.topic_name, partitions=topic.partitions
                )
                for topic in member.assignment.topic_partitions
            ]
        ),
    )


def _refused(group_id: str, error: KafkaError) -> Message:
    return _R.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.ShareGroupDescribeResponse(groups=[_refused(one, error) for one in call.request.group_ids])


API = Api(77, (1, 1), handle, _refuse, feature=SHARE)
