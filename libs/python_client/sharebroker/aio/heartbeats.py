"""The task that sends a member's heartbeats, independently of the application's polls."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from sharebroker.aio.connection import Connection, call
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2 import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from sharebroker_protocol.membership.machine import HeartbeatRequest, HeartbeatResponse, Membership
from sharebroker_protocol.model import TopicIdPartition


class Heartbeats:
    """Sends the requests of `membership`; awaits `changed` after each response and each `wake`."""

    def __init__(
        self, connection: Connection, membership: Membership, changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection = connection
        self._membership = membership
        self._changed = changed
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._template = ShareGroupHeartbeatRequest(client_host=socket.gethostname())

    def identify(self, group_id: str, member_id: str, client_id: str) -> None:
        """Sets the identity that each heartbeat carries."""
        self._template.group_id = group_id
        self._template.member_id = member_id
        self._template.client_id = client_id

    def wake(self) -> None:
        """Checks again whether a heartbeat is due."""
        self._wake.set()

    async def idle(self) -> None:
        """Waits until the membership has no further heartbeat to send."""
        await self._idle.wait()

    async def run(self, request_timeout: float) -> None:
        """Sends heartbeats until cancelled; `request_timeout` is in seconds."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            self._idle.clear()
            await self._changed()
            request = self._membership.heartbeat(loop.time())
            if request is None:
                await self._sleep_until(self._membership.next_deadline())
                continue
            try:
                response = await self._send(request, request_timeout)
            except KafkaError as error:
                self._membership.failed(error, loop.time())
            else:
                self._membership.answered(response, loop.time())

    async def _sleep_until(self, deadline: float | None) -> None:
        """Waits until the deadline (loop time) or a wake-up."""
        if deadline is None:
            self._idle.set()
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _send(self, request: HeartbeatRequest, timeout: float) -> HeartbeatResponse:
        message = ShareGroupHeartbeatRequest(member_epoch=request.member_epoch)
        message.MergeFrom(self._template)
        if request.rack_id is not None:
            message.rack_id = request.rack_id
        if request.topics is not None:
            message.subscribed_topic_names.names.extend(sorted(request.topics))
        response = await call(self._connection.share.ShareGroupHeartbeat, message, timeout)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), response.error_message)
        return _parsed(response)


def _parsed(response: ShareGroupHeartbeatResponse) -> HeartbeatResponse:
    assignment = None
    if response.HasField("assignment"):
        assignment = frozenset(
            TopicIdPartition(topic.topic_id, partition)
            for topic in response.assignment.topic_partitions
            for partition in topic.partitions
        )
    return HeartbeatResponse(response.member_epoch, response.heartbeat_interval_ms / 1000, assignment)
