"""The background task that keeps a member in its group, whatever the application does meanwhile."""

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
from sharebroker_protocol.membership.heartbeat import HeartbeatRequest, HeartbeatResponse
from sharebroker_protocol.membership.machine import Membership
from sharebroker_protocol.model import TopicIdPartition


class Heartbeats:
    """Sends what `membership` wants sent; `changed` is awaited after each answer and each `wake`."""

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
        """Who sends them."""
        self._template.group_id = group_id
        self._template.member_id = member_id
        self._template.client_id = client_id

    def wake(self) -> None:
        """Something has changed that a heartbeat may have to tell."""
        self._wake.set()

    async def idle(self) -> None:
        """Wait until there is nothing left to send, not even later."""
        await self._idle.wait()

    async def run(self, request_timeout: float) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            self._idle.clear()
            await self._changed()
            request = self._membership.heartbeat(loop.time())
            if request is None:
                await self._until(self._membership.next_deadline())
                continue
            try:
                response = await self._send(request, request_timeout)
            except KafkaError as error:
                self._membership.failed(error, loop.time())
            else:
                self._membership.answered(response, loop.time())

    async def _until(self, deadline: float | None) -> None:
        """Sleep to the deadline, or until something changes."""
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
        return _understood(response)


def _understood(response: ShareGroupHeartbeatResponse) -> HeartbeatResponse:
    assignment = None
    if response.HasField("assignment"):
        assignment = frozenset(
            TopicIdPartition(topic.topic_id, partition)
            for topic in response.assignment.topic_partitions
            for partition in topic.partitions
        )
    return HeartbeatResponse(response.member_epoch, response.heartbeat_interval_ms / 1000, assignment)
