"""RPCs of share groups: heartbeats, descriptions, and the administration of groups without members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.machine import Reply
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    LEAVE,
    AlterOffsets,
    AlterPlan,
    DeleteGroup,
    DeleteOffsets,
    DeletePlan,
    GroupDescription,
    Heartbeat,
    HeartbeatReply,
    UnchangedHeartbeat,
)
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.group_coordinator.service.share_states import Failures, ShareStates, shielded
from sharebroker_server.rpc.partition_errors import refusal

MemberLeft = Callable[[str, str], None]
"""Receives group id and member id: leaders release the records that the member holds."""


class Membership:
    """Serves heartbeats; `wait` bounds in seconds how long one waits for share state."""

    def __init__(self, shards: Shards, states: ShareStates, member_left: MemberLeft, wait: float) -> None:
        self._shards = shards
        self._states = states
        self._member_left = member_left
        self._wait = wait

    def extend_session(self, heartbeat: UnchangedHeartbeat) -> bool:
        """Extends the session of a member without changes; False if the caller must send a full heartbeat."""
        try:
            return self._shards.try_read(heartbeat, heartbeat.group_id) is True
        except KafkaError:
            return False

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatReply:
        """Returns the reply to a heartbeat. Raises KafkaError.

        Unlike Kafka, where a member receives partitions one interval after their state was initialised, the
        response waits for state that is being initialised and contains the partitions.
        """
        reply = await self._decided(heartbeat)
        if heartbeat.member_epoch == LEAVE:
            self._member_left(heartbeat.group_id, heartbeat.member_id)
        elif reply.pending and self._states.busy(heartbeat.group_id):
            await self._states.wait_until_idle(heartbeat.group_id, self._wait)
            second = await self._decided(_repeated(heartbeat, reply))
            return second if second.assignment is not None else replace(second, assignment=reply.assignment)
        return reply

    async def _decided(self, heartbeat: Heartbeat) -> HeartbeatReply:
        deciding = self._shards.submit(heartbeat, heartbeat.group_id)
        if deciding.done():  # no record was written, as for most heartbeats
            return self._begun(deciding.result())
        # If the caller is cancelled, the state that the decision recorded must be initialised nevertheless.
        return await shielded(self._written(deciding))

    async def _written(self, deciding: Awaitable[Reply]) -> HeartbeatReply:
        return self._begun(await deciding)

    def _begun(self, reply: Reply) -> HeartbeatReply:
        if not isinstance(reply, HeartbeatReply):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The reply to a heartbeat is {reply!r}.")
        if reply.initialize is not None:
            self._states.begin(reply.initialize)
        return reply


def _repeated(heartbeat: Heartbeat, reply: HeartbeatReply) -> Heartbeat:
    """Returns the member's next heartbeat without changes; a member that joins may join again."""
    if heartbeat.member_epoch == 0:
        return heartbeat
    return replace(heartbeat, member_epoch=reply.member_epoch, topics=None)


_log = structlog.get_logger()

StateChanged = Callable[[str, Collection[TopicIdPartition]], Awaitable[None]]
"""Receives a group id and the partitions whose share state was replaced."""

_AlteredTopic = pb.AlterShareGroupOffsetsResponse.Topic
_AlteredPartition = pb.AlterShareGroupOffsetsResponse.Partition
_DeletedTopic = pb.DeleteShareGroupOffsetsResponse.Topic
_DeletedGroup = pb.DeleteGroupsResponse.DeletableGroupResult


class Administration:
    """Changes groups without members. Every method raises KafkaError for errors about the whole group.

    `state_changed` makes leaders load replaced share state again.
    """

    def __init__(
        self, shards: Shards, states: ShareStates, view: ClusterView, state_changed: StateChanged
    ) -> None:
        self._shards = shards
        self._states = states
        self._view = view
        self._state_changed = state_changed

    async def alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Kafka: AlterShareGroupOffsets (91)."""
        # A cancelled caller must not leave the change half done.
        return await shielded(self._alter_offsets(request))

    async def delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Kafka: DeleteShareGroupOffsets (92)."""
        return await shielded(self._delete_offsets(request))

    async def delete_group(self, group_id: str, group_epoch: int | None) -> _DeletedGroup:
        """Kafka: DeleteGroups (42), one group; returns errors in the result."""
        try:
            await shielded(self._delete_group(DeleteGroup(group_id, group_epoch)))
        except KafkaError as error:
            return _DeletedGroup(group_id=group_id, **refusal(error))
        _log.info("share group deleted", group=group_id)
        return _DeletedGroup(group_id=group_id)

    async def _alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        offsets = {
            (topic.topic_name, partition.partition): partition.start_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        command = AlterOffsets(request.group_id, offsets, _epoch(request))
        plan = await self._shards.request(command, request.group_id, AlterPlan)
        failures = await self._states.initialize(plan.initialize)
        if plan.initialize.start_offsets:
            await self._state_changed(request.group_id, plan.initialize.start_offsets)
        if altered := plan.initialize.start_offsets.keys() - failures.keys():
            _log.info("share group offsets altered", group=request.group_id, partitions=len(altered))
        return pb.AlterShareGroupOffsetsResponse(
            responses=[self._altered(topic, plan, failures) for topic in request.topics]
        )

    def _altered(
        self, requested: pb.AlterShareGroupOffsetsRequest.Topic, plan: AlterPlan, failures: Failures
    ) -> _AlteredTopic:
        topic = self._view.topic(requested.topic_name)
        altered = _AlteredTopic(topic_name=requested.topic_name, topic_id=topic.topic_id if topic else "")
        for partition in requested.partitions:
            error = plan.rejected.get((requested.topic_name, partition.partition)) or failures.get(
                TopicIdPartition(altered.topic_id, partition.partition)
            )
            altered.partitions.append(_AlteredPartition(partition=partition.partition, **refusal(error)))
        return altered

    async def _delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        command = DeleteOffsets(request.group_id, tuple(request.topic_names), _epoch(request))
        plan = await self._shards.request(command, request.group_id, DeletePlan)
        failures: Failures = {}
        if plan.partitions:
            _, failures = await self._states.delete(request.group_id, plan)
            await self._state_changed(request.group_id, plan.partitions)
        by_topic = {topic_id: error for (topic_id, _), error in failures.items()}
        results = [self._deleted(name, plan, by_topic) for name in dict.fromkeys(request.topic_names)]
        if deleted := [result.topic_name for result in results if not result.error_code]:
            _log.info("share group offsets deleted", group=request.group_id, topics=deleted)
        return pb.DeleteShareGroupOffsetsResponse(responses=results)

    def _deleted(self, name: str, plan: DeletePlan, failures: dict[str, KafkaError]) -> _DeletedTopic:
        topic = self._view.topic(name)
        topic_id = topic.topic_id if topic else ""
        error = plan.rejected.get(name) or failures.get(topic_id)
        return _DeletedTopic(topic_name=name, topic_id=topic_id, **refusal(error))

    async def _delete_group(self, command: DeleteGroup) -> None:
        group_id = command.group_id
        plan = await self._shards.request(command, group_id, DeletePlan)
        if not plan.partitions:
            return
        deleted, failures = await self._states.delete(group_id, plan, with_group=True)
        await self._state_changed(group_id, plan.partitions)
        for error in failures.values():
            raise error
        if not deleted:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"A member joined group {group_id} while it was being deleted."
            )


def _epoch(request: pb.AlterShareGroupOffsetsRequest | pb.DeleteShareGroupOffsetsRequest) -> int | None:
    return request.group_epoch if request.HasField("group_epoch") else None


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
