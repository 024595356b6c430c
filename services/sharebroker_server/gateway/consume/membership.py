"""Keeps the member of a Consume stream in its group: sends the heartbeats that its client would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.membership.heartbeat import LEAVE_EPOCH, HeartbeatRequest, HeartbeatResponse
from sharebroker_protocol.membership.machine import Membership, MembershipSettings
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.clients.coordinators import Coordinators
from sharebroker_server.gateway.clients.deadline import Deadline, raise_moved
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.core.values import SessionKey

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who joins: the client's name and host are what `describe` shows. `stream_id` is one stream's own.

    That it ended may be found out late, when the member has another stream at some other gateway.
    """

    key: SessionKey
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    stream_id: str = ""


class StreamMember:
    """A member; `assigned(epoch, partitions)` is called after joining and whenever the assignment changed."""

    def __init__(
        self,
        coordinators: Coordinators,
        identity: Identity,
        topics: frozenset[str],
        assigned: Callable[[int, frozenset[TopicIdPartition]], None],
    ) -> None:
        self._coordinators = coordinators
        self._identity = identity
        self._assigned = assigned
        self._machine = Membership(MembershipSettings(rack_id=identity.rack_id))
        self._machine.subscribe(topics)
        self._told: frozenset[TopicIdPartition] | None = None

    async def run(self) -> None:
        """Heartbeat until cancelled. Raises the KafkaError that ends the membership."""
        clock = asyncio.get_running_loop().time
        while True:
            due = self._machine.next_deadline()
            await asyncio.sleep(max(0.0, (due or 0.0) - clock()))
            request = self._machine.heartbeat(clock())
            if request is not None:
                await self._beat(request, clock)

    async def leave(self) -> None:
        """Say good-bye; the group may have forgotten the member already."""
        try:
            await heartbeat(self._coordinators, self._identity, HeartbeatRequest(LEAVE_EPOCH), 5.0)
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
                raise

    async def _beat(self, request: HeartbeatRequest, clock: Callable[[], float]) -> None:
        try:
            answer = await heartbeat(self._coordinators, self._identity, request, REQUEST_TIMEOUT)
        except KafkaError as error:
            self._machine.failed(error, clock())
            if self._machine.error is not None or self._machine.take_report() is not None:
                raise
        else:
            self._machine.answered(answer, clock())
            self._tell()

    def _tell(self) -> None:
        assigned = self._machine.assigned
        if assigned != self._told:
            self._told = assigned
            self._assigned(self._machine.member_epoch, assigned)


async def heartbeat(
    coordinators: Coordinators, identity: Identity, request: HeartbeatRequest, timeout: float
) -> HeartbeatResponse:
    """Send one heartbeat to the group's coordinator. Raises KafkaError."""
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
    )
    return _answer(await send_heartbeat(coordinators, message, Deadline(timeout)))


async def send_heartbeat(
    coordinators: Coordinators, message: pb.ShareGroupHeartbeatRequest, deadline: Deadline
) -> pb.ShareGroupHeartbeatResponse:
    """Pass a heartbeat on to the group's coordinator. Raises KafkaError, also for one that stands in band."""

    async def send(stub: Stub, left: float) -> pb.ShareGroupHeartbeatResponse:
        answer = await stub.ShareGroupHeartbeat(message, timeout=left)
        raise_moved(answer.error_code, answer.error_message)
        return answer

    answer = await coordinators.of_group(message.group_id, send, deadline)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    return answer


def _answer(message: pb.ShareGroupHeartbeatResponse) -> HeartbeatResponse:
    assignment = None
    if message.HasField("assignment"):
        assignment = frozenset(
            TopicIdPartition(topic.topic_id, index)
            for topic in message.assignment.topic_partitions
            for index in topic.partitions
        )
    return HeartbeatResponse(message.member_epoch, message.heartbeat_interval_ms / 1000, assignment)
