"""Sends the heartbeats of a Consume stream's member in place of its client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.membership import (
    LEAVE_EPOCH,
    HeartbeatRequest,
    HeartbeatResponse,
    Membership,
    MembershipSettings,
)
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT, Coordinators, raise_moved
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )


@dataclass(frozen=True, slots=True)
class ShareMemberIdentity:
    """Identifies a member; describe commands show `client_id` and `client_host`.

    `stream_id` is unique to one stream: its end may be detected late, when the member already has another
    stream at another gateway.
    """

    key: SessionKey
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    stream_id: str = ""


def temporary_member(group_id: str) -> ShareMemberIdentity:
    """Returns the identity of a member that joins to have share state initialised."""
    return ShareMemberIdentity(SessionKey(group_id, f"gw-{uuid4().hex}"), client_id="acquire")


class StreamMember:
    """A member. Calls `assigned(epoch, partitions)` after it joined and when the assignment changes."""

    def __init__(
        self,
        coordinators: Coordinators,
        identity: ShareMemberIdentity,
        topics: frozenset[str],
        assigned: Callable[[int, frozenset[TopicIdPartition]], None],
    ) -> None:
        self._coordinators = coordinators
        self._identity = identity
        self._assigned = assigned
        self._machine = Membership(MembershipSettings(rack_id=identity.rack_id))
        self._machine.subscribe(topics)
        self._reported: frozenset[TopicIdPartition] | None = None

    async def run(self) -> None:
        """Sends heartbeats until cancelled. Raises the KafkaError that ends the membership."""
        clock = asyncio.get_running_loop().time
        while True:
            due = self._machine.next_deadline()
            await asyncio.sleep(max(0.0, (due or 0.0) - clock()))
            request = self._machine.heartbeat(clock())
            if request is not None:
                await self._heartbeat(request, clock)

    async def leave(self) -> None:
        """Leaves the group; ignores that the group has removed the member already."""
        try:
            await heartbeat(self._coordinators, self._identity, HeartbeatRequest(LEAVE_EPOCH), 5.0)
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
                raise

    async def _heartbeat(self, request: HeartbeatRequest, clock: Callable[[], float]) -> None:
        try:
            response = await heartbeat(self._coordinators, self._identity, request, REQUEST_TIMEOUT)
        except KafkaError as error:
            self._machine.failed(error, clock())
            if self._machine.error is not None or self._machine.take_report() is not None:
                raise
        else:
            self._machine.answered(response, clock())
            self._report_assignment()

    def _report_assignment(self) -> None:
        assigned = self._machine.assigned
        if assigned != self._reported:
            self._reported = assigned
            self._assigned(self._machine.member_epoch, assigned)


async def heartbeat(
    coordinators: Coordinators, identity: ShareMemberIdentity, request: HeartbeatRequest, timeout: float
) -> HeartbeatResponse:
    """Sends one heartbeat to the group's coordinator. Raises KafkaError."""
    topics = None if request.topics is None else pb.TopicNames(names=sorted(request.topics))
    message = pb.ShareGroupHeartbeatRequest(
        group_id=identity.key.group_id,
        member_id=identity.key.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed_topic_names=topics,
        client_id=identity.client_id,
        client_host=identity.client_host,
        stream_id=identity.stream_id,
        principal=identity.key.principal or str(ANONYMOUS),
    )
    return _response(await send_heartbeat(coordinators, message, Deadline(timeout)))


async def send_heartbeat(
    coordinators: Coordinators, message: pb.ShareGroupHeartbeatRequest, deadline: Deadline
) -> pb.ShareGroupHeartbeatResponse:
    """Forwards a heartbeat to the group's coordinator. Raises KafkaError, also for its error code."""

    async def send(stub: Stub, seconds: float) -> pb.ShareGroupHeartbeatResponse:
        response = await stub.ShareGroupHeartbeat(message, timeout=seconds)
        raise_moved(response.error_code, response.error_message)
        return response

    response = await coordinators.of_group(message.group_id, send, deadline)
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), response.error_message)
    return response


def _response(message: pb.ShareGroupHeartbeatResponse) -> HeartbeatResponse:
    assignment = None
    if message.HasField("assignment"):
        assignment = frozenset(
            TopicIdPartition(topic.topic_id, index)
            for topic in message.assignment.topic_partitions
            for index in topic.partitions
        )
    return HeartbeatResponse(message.member_epoch, message.heartbeat_interval_ms / 1000, assignment)
