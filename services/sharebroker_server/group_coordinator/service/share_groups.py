"""RPCs of share groups: heartbeats, descriptions, and the administration of groups without members.

An administrative change is decided by the group's shard, carried out at the share coordinator, and reported
to the shard. Errors of a whole call are raised; others are part of the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
    GroupCoordinatorServiceServicer,
)
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.host import expected
from sharebroker_server.group_coordinator.clients.log_ends import LogEnds
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.machine import Reply
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups import commands as c
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment, Profile, ShareGroup
from sharebroker_server.group_coordinator.service.lag import Lags
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.service.share_states import Failures, ShareStates, shielded
from sharebroker_server.persister.port import Persister
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.routing.transaction_check import TransactionCheck
from sharebroker_server.rpc.errors import refusal

_log = structlog.get_logger()

NO_OPERATIONS: Final = -(1 << 31)
"""Kafka's value for authorized operations that were not requested, or of a server without ACLs."""

_Described = pb.ShareGroupDescribeResponse.DescribedGroup
_Member = pb.ShareGroupDescribeResponse.Member
_DeletedGroup = pb.DeleteGroupsResponse.DeletableGroupResult


@dataclass(frozen=True, slots=True)
class Ports:
    """The collaborators of the group coordinator.

    `member_left` receives the group id and member id of a member that left or was fenced: leaders release
    the records that it holds. `state_changed` receives a group id and the partitions whose share state was
    replaced: leaders load it again. `transactions` confirms open transactions.
    """

    view: MetadataImage
    persister: Persister
    ends: LogEnds
    member_left: Callable[[str, str], None]
    state_changed: Callable[[str, Collection[TopicIdPartition]], Awaitable[None]]
    transactions: TransactionCheck


class ShareGroupRpcs(GroupCoordinatorServiceServicer):
    """The part of the service that is about share groups."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig, ports: Ports) -> None:
        self._host = host
        self._ports = ports
        self._initialize_wait = config.initialize_wait
        self._states = ShareStates(ports.persister, host, config.state_timeout)
        self._lags = Lags(host, ports.view, ports.persister, ports.ends)

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """Extends the session of a member whose heartbeat repeats its last one; False if it must be sent."""
        try:
            shard = self._host.of(group_id)
            return shard.try_read(c.UnchangedHeartbeat(group_id, member_id, member_epoch)) is True
        except KafkaError:
            return False

    async def ShareGroupHeartbeat(
        self, request: pb.ShareGroupHeartbeatRequest, _context: Any
    ) -> pb.ShareGroupHeartbeatResponse:
        """Kafka: ShareGroupHeartbeat (76).

        Unlike Kafka, where a member receives partitions one interval after their state was initialised, the
        response waits for state that is being initialised and contains the partitions.
        """
        heartbeat = HEARTBEAT.value(request)
        reply = await self._decided(heartbeat)
        if heartbeat.member_epoch == c.LEAVE:
            self._ports.member_left(heartbeat.group_id, heartbeat.member_id)
        elif reply.pending and await self._states.wait(heartbeat.group_id, self._initialize_wait):
            again = await self._decided(_repeated(heartbeat, reply))
            reply = again if again.assignment is not None else replace(again, assignment=reply.assignment)
        return HEARTBEAT_REPLY.message(reply)

    async def ShareGroupDescribe(
        self, request: pb.ShareGroupDescribeRequest, _context: Any
    ) -> pb.ShareGroupDescribeResponse:
        """Kafka: ShareGroupDescribe (77)."""
        groups = await asyncio.gather(*map(self._describe, request.group_ids))
        return pb.ShareGroupDescribeResponse(groups=groups)

    async def DeleteGroups(self, request: pb.DeleteGroupsRequest, _context: Any) -> pb.DeleteGroupsResponse:
        """Kafka: DeleteGroups (42)."""
        epochs = request.group_epochs
        deletions = (self._delete(group_id, epochs.get(group_id)) for group_id in request.group_ids)
        return pb.DeleteGroupsResponse(results=await asyncio.gather(*deletions))

    async def DescribeShareGroupOffsets(
        self, request: pb.DescribeShareGroupOffsetsRequest, _context: Any
    ) -> pb.DescribeShareGroupOffsetsResponse:
        """Kafka: DescribeShareGroupOffsets (90)."""
        groups = await asyncio.gather(*map(self._lags.describe, request.groups))
        return pb.DescribeShareGroupOffsetsResponse(groups=groups)

    async def AlterShareGroupOffsets(
        self, request: pb.AlterShareGroupOffsetsRequest, _context: Any
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Kafka: AlterShareGroupOffsets (91)."""
        # A cancelled caller must not leave the change half done.
        return await shielded(self._alter_offsets(request))

    async def DeleteShareGroupOffsets(
        self, request: pb.DeleteShareGroupOffsetsRequest, _context: Any
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Kafka: DeleteShareGroupOffsets (92)."""
        return await shielded(self._delete_offsets(request))

    # Heartbeats

    async def _decided(self, heartbeat: c.Heartbeat) -> c.HeartbeatReply:
        deciding = self._host.of(heartbeat.group_id).submit(heartbeat)
        if deciding.done():  # no record was written, as for most heartbeats
            return self._begun(deciding.result())
        # If the caller is cancelled, the state that the decision recorded must be initialised nevertheless.
        return await shielded(self._written(deciding))

    async def _written(self, deciding: Awaitable[Reply]) -> c.HeartbeatReply:
        return self._begun(await deciding)

    def _begun(self, reply: Reply) -> c.HeartbeatReply:
        reply = expected(reply, c.HeartbeatReply)
        if reply.initialize is not None:
            self._states.begin(reply.initialize)
        return reply

    # Descriptions and administration

    async def _describe(self, group_id: str) -> _Described:
        try:
            group = await self._host.request(group_id, c.DescribeGroup(group_id), ShareGroup)
        except KafkaError as error:
            return not_described(group_id, error)
        return described(group, self._ports.view)

    async def _delete(self, group_id: str, group_epoch: int | None) -> _DeletedGroup:
        try:
            await shielded(self._delete_group(c.DeleteGroup(group_id, group_epoch)))
        except KafkaError as error:
            return _DeletedGroup(group_id=group_id, **refusal(error))
        _log.info("share group deleted", group=group_id)
        return _DeletedGroup(group_id=group_id)

    async def _delete_group(self, command: c.DeleteGroup) -> None:
        group_id = command.group_id
        plan = await self._host.request(group_id, command, c.DeletePlan)
        if not plan.partitions:
            return
        deleted, failures = await self._states.delete(group_id, plan, with_group=True)
        await self._ports.state_changed(group_id, plan.partitions)
        for error in failures.values():
            raise error
        if not deleted:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"A member joined group {group_id} while it was being deleted."
            )

    async def _alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        offsets = {
            (topic.topic_name, partition.partition): partition.start_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        command = c.AlterOffsets(request.group_id, offsets, _epoch(request))
        plan = await self._host.request(request.group_id, command, c.AlterPlan)
        failures = await self._states.initialize(plan.initialize)
        if plan.initialize.start_offsets:
            await self._ports.state_changed(request.group_id, plan.initialize.start_offsets)
        if altered := plan.initialize.start_offsets.keys() - failures.keys():
            _log.info("share group offsets altered", group=request.group_id, partitions=len(altered))
        responses = [self._altered(topic, plan, failures) for topic in request.topics]
        return pb.AlterShareGroupOffsetsResponse(responses=responses)

    def _altered(
        self, requested: pb.AlterShareGroupOffsetsRequest.Topic, plan: c.AlterPlan, failures: Failures
    ) -> pb.AlterShareGroupOffsetsResponse.Topic:
        name, topic_id = requested.topic_name, self._topic_id(requested.topic_name)
        altered = pb.AlterShareGroupOffsetsResponse.Topic(topic_name=name, topic_id=topic_id)
        for partition in (partition.partition for partition in requested.partitions):
            error = plan.rejected.get((name, partition)) or failures.get(
                TopicIdPartition(topic_id, partition)
            )
            altered.partitions.add(partition=partition, **refusal(error))
        return altered

    async def _delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        command = c.DeleteOffsets(request.group_id, tuple(request.topic_names), _epoch(request))
        plan = await self._host.request(request.group_id, command, c.DeletePlan)
        failures: Failures = {}
        if plan.partitions:
            _, failures = await self._states.delete(request.group_id, plan)
            await self._ports.state_changed(request.group_id, plan.partitions)
        by_topic = {topic_id: error for (topic_id, _), error in failures.items()}
        response = pb.DeleteShareGroupOffsetsResponse()
        for name in dict.fromkeys(request.topic_names):
            topic_id = self._topic_id(name)
            error = plan.rejected.get(name) or by_topic.get(topic_id)
            response.responses.add(topic_name=name, topic_id=topic_id, **refusal(error))
        if deleted := [result.topic_name for result in response.responses if not result.error_code]:
            _log.info("share group offsets deleted", group=request.group_id, topics=deleted)
        return response

    def _topic_id(self, name: str) -> str:
        topic = self._ports.view.topic(name)
        return topic.topic_id if topic else ""


def described(group: ShareGroup, view: MetadataImage) -> _Described:
    """Returns the description of a group; deleted topics are left out."""
    members = [
        _Member(
            member_id=member_id,
            member_epoch=member.epoch,
            assignment=_named(member.assigned, view),
            **_PROFILE.fields(member.profile),
        )
        for member_id, member in sorted(group.members.items())
    ]
    return _DESCRIPTION.message(
        group,
        group_state=group.state.value,
        assignor_name="simple",
        members=members,
        authorized_operations=NO_OPERATIONS,
    )


def not_described(group_id: str, error: KafkaError) -> _Described:
    """Returns the error in place of a group's description."""
    return _Described(group_id=group_id, authorized_operations=NO_OPERATIONS, **refusal(error))


def _named(assignment: Assignment, view: MetadataImage) -> pb.Assignment:
    named = pb.Assignment()
    for topic_id, partitions in sorted(assignment.items()):
        if topic := view.topic_by_id(topic_id):
            named.topic_partitions.add(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)
            )
    return named


def _repeated(heartbeat: c.Heartbeat, reply: c.HeartbeatReply) -> c.Heartbeat:
    """Returns the member's next heartbeat without changes; a member that joins may join again."""
    if heartbeat.member_epoch == 0:
        return heartbeat
    return replace(heartbeat, member_epoch=reply.member_epoch, topics=None)


def _epoch(request: pb.AlterShareGroupOffsetsRequest | pb.DeleteShareGroupOffsetsRequest) -> int | None:
    return request.group_epoch if request.HasField("group_epoch") else None


def _topics(assignment: Assignment) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(partitions)}
            for topic_id, partitions in sorted(assignment.items())
        ]
    }


HEARTBEAT: Final = Conversion(
    c.Heartbeat,
    pb.ShareGroupHeartbeatRequest,
    {"topics": Mapped("subscribed_topic_names", decode=lambda topics: tuple(topics.names))},
)
HEARTBEAT_REPLY: Final = Conversion(
    c.HeartbeatReply, pb.ShareGroupHeartbeatResponse, {"assignment": Mapped(encode=_topics)}
)
_PROFILE: Final = Conversion(
    Profile, _Member, {"subscribed": Mapped("subscribed_topic_names", encode=sorted)}
)
_DESCRIPTION: Final = Conversion(
    ShareGroup,
    _Described,
    {"epoch": "group_epoch"},
)
