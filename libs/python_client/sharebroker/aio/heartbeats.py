"""The consumer as a member of its group, independently of the application's polls."""

from __future__ import annotations

import asyncio
import base64
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress

from sharebroker.aio.connection import Connection, call
from sharebroker.aio.delivery_queue import DeliveryQueue
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.admin_pb2 import MetadataRequest
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2 import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from sharebroker_protocol.membership import (
    Callback,
    HeartbeatRequest,
    HeartbeatResponse,
    Membership,
    MembershipSettings,
    Partitions,
)
from sharebroker_protocol.model import TopicIdPartition, TopicPartition


class GroupMember:
    """The consumer as a member of its group: heartbeats, and calls of the rebalance listener.

    `changed` is called after each response and each `wake`, before a heartbeat is sent.
    """

    def __init__(
        self,
        connection: Connection,
        group_id: str,
        config: ConsumerConfig,
        queue: DeliveryQueue,
        changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._config = config
        self._queue = queue
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()  # until `run` begins
        self._topic_names: dict[str, str] = {}
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.membership = Membership(
            MembershipSettings(
                config.client_rack,
                config.listener is not None,
                config.retry_backoff_ms / 1000,
                config.retry_backoff_max_ms / 1000,
            )
        )
        self._template = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=self.id,
            client_id=config.client_id,
            client_host=socket.gethostname(),
        )

    def wake(self) -> None:
        """Checks again whether a heartbeat is due."""
        self._wake.set()

    async def idle(self) -> None:
        """Waits until the membership has no further heartbeat to send."""
        await self._idle.wait()

    async def run(self) -> None:
        """Sends heartbeats until cancelled."""
        while True:
            self._wake.clear()
            self._idle.clear()
            self._changed()
            await self._queue_changes()
            request = self.membership.heartbeat(self._loop.time())
            if request is None:
                await self._sleep_until(self.membership.next_deadline())
                continue
            try:
                response = await self._send(request, self._config.request_timeout_ms / 1000)
            except KafkaError as error:
                self.membership.failed(error, self._loop.time())
            else:
                self.membership.answered(response, self._loop.time())

    async def _queue_changes(self) -> None:
        """Queues listener calls and errors of the membership for the application."""
        while (callback := self.membership.next_callback()) is not None:
            await self._queue_listener_call(callback)
        while (report := self.membership.take_report()) is not None:
            self._queue.put_error(report)
        if self.membership.error is not None:
            self._queue.notify()

    async def _queue_listener_call(self, callback: Callback) -> None:
        listener = self._config.listener
        if listener is None:
            return
        partitions = await self.with_topic_names(callback.partitions)
        method = getattr(listener, callback.kind.value)

        def call_listener() -> None:
            try:
                method(partitions)
            finally:
                self._loop.call_soon_threadsafe(self._listener_returned, callback)

        self._queue.put_callback(call_listener)

    def _listener_returned(self, callback: Callback) -> None:
        self.membership.callback_completed(callback)
        self.wake()

    async def with_topic_names(self, partitions: Partitions) -> frozenset[TopicPartition]:
        """Replaces topic ids by names; a topic whose metadata cannot be read keeps its id."""
        if any(p.topic_id not in self._topic_names for p in partitions):
            request = MetadataRequest(topics=sorted(self.membership.topics))
            with suppress(KafkaError):
                method, metadata = self._connection.admin.Metadata, self._connection.metadata
                response = await call(method, request, 5.0, metadata)
                self._topic_names.update({topic.topic_id: topic.name for topic in response.topics})
        return frozenset(
            TopicPartition(self._topic_names.get(p.topic_id, p.topic_id), p.partition) for p in partitions
        )

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
        method, metadata = self._connection.share.ShareGroupHeartbeat, self._connection.metadata
        response = await call(method, message, timeout, metadata)
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
