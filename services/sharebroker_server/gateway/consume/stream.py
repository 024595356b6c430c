"""A Consume stream: the messages of the client and the membership; `LeaderFanIn` serves the leaders."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Set
from typing import Final
from uuid import uuid4

from sharebroker_protocol.errors import KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2 import TopicPartitions
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.aio import Tasks
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.authorization import Access
from sharebroker_server.gateway.consume.leader_fan_in import LeaderFanIn
from sharebroker_server.gateway.consume.membership import ShareMemberIdentity, StreamMember
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import (
    acquire_mode,
    check_bounds,
    check_lock,
    check_member_id,
    check_topic_names,
)

_MOST: Final = 2**31 - 1


async def consume(
    access: Access, requests: AsyncIterator[pb.ConsumeRequest], client_host: str
) -> AsyncGenerator[pb.ConsumeResponse, None]:
    """Serves a Consume stream until the client half-closes it or loses its permission. Raises KafkaError."""
    first = await anext(requests, pb.ConsumeRequest())
    check_first(first)
    gateway = access.gateway
    check_lock("subscribe.lock_ms", first.subscribe.lock_ms, gateway.config.group_share_max_lock_ms)
    access.require_read(first.subscribe.group_id, first.subscribe.topics)
    stream = ConsumeSession(access, first.subscribe, client_host)
    with gateway.serving(stream.fail), gateway.rechecks.during(stream.check, stream.fail):
        try:
            stream.start(first, requests)
            async for response, size in stream.responses():
                yield response
                stream.read(response, size)
        finally:
            await stream.stop()


def check_first(first: pb.ConsumeRequest) -> None:
    """Raises INVALID_REQUEST or INVALID_TOPIC_EXCEPTION if the message cannot open a stream."""
    if not first.HasField("subscribe"):
        raise invalid_field("subscribe", "The first message of a Consume stream must subscribe.")
    subscribe = first.subscribe
    check_group_id(subscribe.group_id, "subscribe.group_id")
    check_bounds("subscribe.batch_size", subscribe.batch_size, 0, _MOST)
    acquire_mode(subscribe.acquire_mode, "subscribe.acquire_mode")
    if subscribe.HasField("rack_id") and not subscribe.rack_id:
        raise invalid_field("subscribe.rack_id", "The rack id must not be empty; leave it out.")
    if not subscribe.topics and not subscribe.member_id:
        text = "A subscription has topics, or the member id of a client that joined the group itself."
        raise invalid_field("subscribe.topics", text)
    if subscribe.member_id:
        check_member_id(subscribe.member_id, "subscribe.member_id")
    check_topic_names("subscribe.topics", subscribe.topics)
    if subscribe.durable_locks and subscribe.topics:
        raise invalid_field("subscribe.durable_locks", "Durable locks need the client's own membership.")


class ConsumeSession:
    """One consumer. With topics the gateway runs the membership, else the client sends its assignment."""

    def __init__(self, access: Access, subscribe: pb.ConsumeRequest.Subscribe, client_host: str) -> None:
        self._access = access
        self._gateway = access.gateway
        self._topics: Iterable[str] = subscribe.topics
        self._key = SessionKey(subscribe.group_id, subscribe.member_id or str(uuid4()), access.principal)
        self._lock_ms = subscribe.lock_ms
        self._granted = 0
        self._throttled = False
        self._tasks = Tasks(self.fail)
        self._unread = self._gateway.unread.stream(client_host, self._end)
        self._fan_in = LeaderFanIn(self._gateway, subscribe, self._key, self._tasks, self._unread)
        self._member = self._membership(subscribe, client_host) if subscribe.topics else None

    def start(self, first: pb.ConsumeRequest, requests: AsyncIterator[pb.ConsumeRequest]) -> None:
        """Starts the tasks of the stream."""
        self._throttle(0)
        if self._member is None:
            self._put_subscribed(0, frozenset())
        else:
            self._tasks.spawn(self._member.run())
        self._tasks.spawn(self._read(first, requests))

    def responses(self) -> AsyncIterator[tuple[pb.ConsumeResponse, int]]:
        """The messages to the client and their reserved bytes. Raises the KafkaError that ends the stream."""
        return aiter(self._fan_in.queue)

    def read(self, response: pb.ConsumeResponse, size: int) -> None:
        """Charges a response that the client read; withholds its credit until its records are paid."""
        if size:
            self._unread.read(size)
        if self._gateway.quotas.active and (response.deliveries or response.records):
            self._throttle(response.ByteSize())

    def _throttle(self, size: int) -> None:
        seconds = self._access.charge_fetched(size)
        if seconds and not self._throttled:
            self._throttled = True
            self._tasks.spawn(self._withhold(seconds))

    async def _withhold(self, seconds: float) -> None:
        await self._fan_in.hold()
        while seconds:
            await self._access.wait_throttled(seconds)
            seconds = self._access.charge_fetched(0)
        self._throttled = False
        await self._fan_in.release()

    def fail(self, error: BaseException) -> None:
        """Ends the stream with an error."""
        self._fan_in.queue.fail(error)

    def _end(self, error: KafkaError) -> None:
        """Ends the stream, whose client does not read while others wait for memory.

        The client receives the error once it reads on: gRPC sends the response that it has begun to send.
        """
        self.fail(error)
        self._gateway.background(self.stop(), "member leave failed")

    def check(self) -> None:
        """Raises GROUP_ or TOPIC_AUTHORIZATION_FAILED unless the client may consume what it does."""
        self._access.require_read(self._key.group_id, self._topics)

    async def stop(self) -> None:
        """Ends all tasks: leaders release the member's records, then it leaves its group.

        Repeated calls have no effect.
        """
        await self._tasks.stop()
        self._unread.close()
        self._fan_in.close()
        member, self._member = self._member, None
        if member is not None:
            self._gateway.background(member.leave(), "member leave failed")

    async def _read(self, first: pb.ConsumeRequest, requests: AsyncIterator[pb.ConsumeRequest]) -> None:
        await self._handle(first)
        async for request in requests:
            if request.HasField("subscribe"):
                raise invalid_field("subscribe", "A Consume stream subscribes once, in its first message.")
            await self._handle(request)
        await self._fan_in.finish()

    async def _handle(self, request: pb.ConsumeRequest) -> None:
        self._granted += request.credit
        if self._granted < 0:
            raise invalid_field("credit", "The credit that is withdrawn exceeds the credit that was granted.")
        check_bounds("credit", self._fan_in.outstanding + request.credit, -_MOST, _MOST)
        if request.HasField("assignment"):
            if self._member is not None:
                raise invalid_field(
                    "assignment", "The gateway runs this membership and receives the assignment."
                )
            parts = request.assignment.partitions
            self._topics = self._names({part.topic_id for part in parts})
            self.check()
            self._fan_in.assign(frozenset(TopicIdPartition(p.topic_id, p.partition) for p in parts))
        await self._fan_in.forward(request)

    def _names(self, topic_ids: Set[str]) -> list[str]:
        """Returns the names of topics; an unknown id needs no permission."""
        found = map(self._gateway.catalog.topic_by_id, topic_ids)
        return [topic.name for topic in found if topic is not None]

    def _membership(self, subscribe: pb.ConsumeRequest.Subscribe, client_host: str) -> StreamMember:
        rack_id = subscribe.rack_id if subscribe.HasField("rack_id") else None
        identity = ShareMemberIdentity(self._key, rack_id, subscribe.client_id, client_host, str(uuid4()))
        topics = frozenset(subscribe.topics)
        return StreamMember(self._gateway.coordinators, identity, topics, self._assigned_by_group)

    def _assigned_by_group(self, epoch: int, partitions: frozenset[TopicIdPartition]) -> None:
        self._fan_in.assign(partitions)
        self._put_subscribed(epoch, partitions)

    def _put_subscribed(self, epoch: int, partitions: frozenset[TopicIdPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic_id, partition in sorted(partitions):
            topics.setdefault(topic_id, []).append(partition)
        subscribed = pb.ConsumeResponse.Subscribed(
            member_id=self._key.member_id,
            member_epoch=epoch,
            assignment=[self._topic_partitions(topic_id, parts) for topic_id, parts in topics.items()],
            acquisition_lock_timeout_ms=self._lock_ms
            or self._gateway.catalog.lock_timeout_ms(self._key.group_id),
        )
        self._tasks.spawn(self._fan_in.queue.put((pb.ConsumeResponse(subscribed=subscribed), 0)))

    def _topic_partitions(self, topic_id: str, partitions: list[int]) -> TopicPartitions:
        topic = self._gateway.catalog.topic_by_id(topic_id)
        return TopicPartitions(
            topic_id=topic_id, topic_name=topic.name if topic else "", partitions=partitions
        )
