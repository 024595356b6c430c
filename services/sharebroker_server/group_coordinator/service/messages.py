"""Converts between messages and the core's values (protos/sharebroker/group_coordinator/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.core.commands import GroupDescription, Heartbeat, HeartbeatReply
from sharebroker_server.group_coordinator.core.share_groups.model import Assignment
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.rpc.errors import refusal

NO_OPERATIONS = -(1 << 31)
"""Kafka's value for authorized operations that were not requested, or of a server without ACLs."""

SHARE: Final = "share"
CLASSIC: Final = "classic"
"""Kafka's names of group types."""

Listed = pb.ListGroupsResponse.ListedGroup
Described = pb.ShareGroupDescribeResponse.DescribedGroup


def heartbeat_in(request: pb.ShareGroupHeartbeatRequest) -> Heartbeat:
    """Returns the command of a heartbeat."""
    return Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        tuple(request.subscribed_topic_names.names) if request.HasField("subscribed_topic_names") else None,
        request.rack_id if request.HasField("rack_id") else None,
        request.client_id,
        request.client_host,
        request.stream_id,
    )


def heartbeat_out(reply: HeartbeatReply) -> pb.ShareGroupHeartbeatResponse:
    """Returns the response to a heartbeat."""
    return pb.ShareGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def described(group: GroupDescription, view: ClusterView) -> Described:
    """Returns the description of a group; deleted topics are left out."""
    return Described(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name="simple",
        members=[
            pb.ShareGroupDescribeResponse.Member(
                member_id=member_id,
                rack_id=member.profile.rack_id,
                member_epoch=member.epoch,
                client_id=member.profile.client_id,
                client_host=member.profile.client_host,
                subscribed_topic_names=sorted(member.profile.subscribed),
                assignment=_named(member.assigned, view),
            )
            for member_id, member in sorted(group.members.items())
        ],
        authorized_operations=NO_OPERATIONS,
    )


def listed(
    shared: Mapping[str, str], consumers: Mapping[str, tuple[str, str]], request: pb.ListGroupsRequest
) -> list[Listed]:
    """Returns the groups that match a request, sorted by id."""
    found = [
        *(
            Listed(group_id=group_id, protocol_type=SHARE, group_state=state, group_type=SHARE)
            for group_id, state in shared.items()
        ),
        *(
            Listed(group_id=group_id, protocol_type=kind, group_state=state, group_type=CLASSIC)
            for group_id, (state, kind) in consumers.items()
        ),
    ]
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return [
        group
        for group in sorted(found, key=lambda group: group.group_id)
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    ]


def not_described(group_id: str, error: KafkaError) -> Described:
    """Returns the error in place of a group's description."""
    return Described(
        group_id=group_id,
        authorized_operations=NO_OPERATIONS,
        **refusal(error),
    )


def _assignment(assignment: Assignment) -> pb.Assignment:
    return pb.Assignment(
        topic_partitions=[
            pb.TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(assignment.items())
        ]
    )


def _named(assignment: Assignment, view: ClusterView) -> pb.Assignment:
    named = _assignment(
        {topic_id: numbers for topic_id, numbers in assignment.items() if view.topic_by_id(topic_id)}
    )
    for entry in named.topic_partitions:
        topic = view.topic_by_id(entry.topic_id)
        entry.topic_name = topic.name if topic else ""
    return named
