"""Fakes of the services behind a gateway: they record requests and return what a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import ClusterRecord, TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import GROUP_COORDINATOR, LEADER
from sharebroker_server.rpc.errors import wire
from tests.testkit.memory.stream_log import MemoryStreamLog

TOPIC: Final = Topic("B" * 21 + "A", "flights", 2)


UPSTREAM: Final = "b1:9092,b2:9092"


def move_upstream(cache: MetadataCache) -> None:
    """Lets TOPIC be a topic of another cluster, at `UPSTREAM`."""
    for record in (
        ClusterRecord("c", upstream_addresses=UPSTREAM),
        TopicRecord(replace(TOPIC, upstream=True)),
    ):
        cache.catalog.apply(record, cache.catalog.position + 1)


class OwnerLookup:
    """Owners of resources, as a test sets them."""

    def __init__(self, owner: ClusterMember) -> None:
        self.members = [owner]
        self.owners: dict[str, ClusterMember] = {}
        self.forgotten: list[str] = []
        self.no_owner = False
        self.on_forget: Callable[[str], None] = lambda _: None
        self._default = owner

    async def owner_of(self, resource: str) -> ClusterMember | None:
        return None if self.no_owner else self.owners.get(resource, self._default)

    def known_owner(self, resource: str) -> ClusterMember | None:
        return None if self.no_owner else self.owners.get(resource, self._default)

    def forget(self, resource: str) -> None:
        self.forgotten.append(resource)
        self.on_forget(resource)

    def give(self, partition: int, member: ClusterMember) -> None:
        self.owners[names.partition(TOPIC.topic_id, partition)] = member


class Leader:
    """A leader whose streams and responses a test controls."""

    STREAMING: Final = ("Deliver",)

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.requests: list[Any] = []
        self.answer: Callable[[Any], Any] = self.all_is_well
        self.watching: list[leader.AwaitRecordsRequest] = []
        self.comes = asyncio.Event()

    async def Deliver(
        self, requests: AsyncIterator[leader.DeliverRequest], context: Any
    ) -> AsyncIterator[leader.DeliverResponse]:
        stream = Stream()
        self.streams.append(stream)
        reader = asyncio.ensure_future(stream.read(requests))
        try:
            while (response := await stream.out.get()) is not None:
                if isinstance(response, BaseException):
                    raise response
                yield response
        finally:
            stream.closed = True
            reader.cancel()

    async def AcquireRecords(self, request: leader.AcquireRecordsRequest, context: Any) -> Any:
        return self._play(request)

    async def AwaitRecords(self, request: leader.AwaitRecordsRequest, context: Any) -> Any:
        self.watching.append(request)
        try:
            await self.comes.wait()
        finally:
            self.watching.remove(request)
        return leader.AwaitRecordsResponse(changed=True)

    async def AcknowledgeRecords(self, request: leader.AcknowledgeRecordsRequest, context: Any) -> Any:
        return self._play(request)

    async def ReleaseMember(self, request: leader.ReleaseMemberRequest, context: Any) -> Any:
        return self._play(request)

    async def Produce(self, request: leader.ProduceRequest, context: Any) -> Any:
        response = self._play(request)
        return await response if isinstance(response, Awaitable) else response

    async def Fetch(self, request: leader.FetchRequest, context: Any) -> Any:
        response = self._play(request)
        return await response if isinstance(response, Awaitable) else response

    async def DescribeProducers(self, request: leader.DescribeProducersRequest, context: Any) -> Any:
        return self._play(request)

    async def ListOffsets(self, request: leader.ListOffsetsRequest, context: Any) -> Any:
        return self._play(request)

    def of(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    def _play(self, request: Any) -> Any:
        self.requests.append(request)
        return self.answer(request)

    @staticmethod
    def all_is_well(request: Any) -> Any:
        if isinstance(request, leader.ReleaseMemberRequest):
            return leader.ReleaseMemberResponse()
        response = getattr(leader, type(request).__name__.replace("Request", "Response"))
        return response(
            partitions=[
                response.Partition(topic_id=part.topic_id, partition=part.partition)
                for part in request.partitions
            ]
        )


class Stream:
    """One Deliver stream: the requests it received, and the responses it is to send."""

    def __init__(self) -> None:
        self.requests: list[leader.DeliverRequest] = []
        self.out: asyncio.Queue[leader.DeliverResponse | BaseException | None] = asyncio.Queue()
        self.ended = False
        self.closed = False

    async def read(self, requests: AsyncIterator[leader.DeliverRequest]) -> None:
        async for request in requests:
            self.requests.append(request)
        self.ended = True
        self.out.put_nowait(None)

    @property
    def credit(self) -> int:
        return sum(request.credit for request in self.requests)

    @property
    def partitions(self) -> list[int]:
        last = [request for request in self.requests if request.HasField("partitions")][-1]
        return [part.partition for part in last.partitions.partitions]

    @property
    def acknowledged(self) -> list[int]:
        return [ack.id for request in self.requests for ack in request.acknowledgements]

    def deliver(
        self, partition: int, first: int, last: int, data: bytes = b"batch", results: Sequence[int] = ()
    ) -> None:
        run = delivery.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1, lock_token=7)
        sent = delivery.Delivery(
            topic_id=TOPIC.topic_id,
            topic=TOPIC.name,
            partition=partition,
            record_batches=data,
            acquired=[run],
        )
        completed = [delivery.AcknowledgementResult(id=number) for number in results]
        self.out.put_nowait(leader.DeliverResponse(deliveries=[sent], results=completed))


class Coordinator:
    """A group coordinator that assigns every partition to every member.

    `ids` are the ids of topics besides TOPIC whose partition 0 subscribers are assigned, by name.
    """

    def __init__(self) -> None:
        self.heartbeats: list[group.ShareGroupHeartbeatRequest] = []
        self.refusals: list[KafkaError] = []
        self.answers: list[ErrorCode] = []
        self.partitions = list(range(TOPIC.partitions))
        self.ids: dict[str, str] = {}
        self.subscriptions: dict[str, Sequence[str]] = {}
        self.changes: list[int] = []
        """The group epoch of each requested change; each change increases it."""

    async def ShareGroupDescribe(self, request: group.ShareGroupDescribeRequest, context: Any) -> Any:
        response = group.ShareGroupDescribeResponse()
        for one in request.group_ids:
            response.groups.add(group_id=one, group_epoch=len(self.changes) + 1)
        return response

    async def AlterShareGroupOffsets(self, request: group.AlterShareGroupOffsetsRequest, context: Any) -> Any:
        self._change(request.group_epoch)
        return group.AlterShareGroupOffsetsResponse()

    async def DeleteShareGroupOffsets(
        self, request: group.DeleteShareGroupOffsetsRequest, context: Any
    ) -> Any:
        self._change(request.group_epoch)
        return group.DeleteShareGroupOffsetsResponse()

    async def DeleteGroups(self, request: group.DeleteGroupsRequest, context: Any) -> Any:
        self._change(*request.group_epochs.values())
        response = group.DeleteGroupsResponse()
        for one in request.group_ids:
            response.results.add(group_id=one)
        return response

    def _change(self, epoch: int) -> None:
        self.changes.append(epoch)
        if self.refusals:
            raise self.refusals.pop(0)

    async def ShareGroupHeartbeat(
        self, request: group.ShareGroupHeartbeatRequest, context: Any
    ) -> group.ShareGroupHeartbeatResponse:
        self.heartbeats.append(request)
        if self.refusals:
            raise self.refusals.pop(0)
        if self.answers:
            return group.ShareGroupHeartbeatResponse(error_code=wire(self.answers.pop(0)))
        assigned = [group.TopicPartitions(topic_id=TOPIC.topic_id, partitions=self.partitions)]
        if request.HasField("subscribed_topic_names"):
            self.subscriptions[request.member_id] = request.subscribed_topic_names.names
        names = self.subscriptions.get(request.member_id, ())
        others = (self.ids[name] for name in names if name in self.ids)
        more = [group.TopicPartitions(topic_id=topic_id, partitions=[0]) for topic_id in others]
        return group.ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=1 if request.member_epoch >= 0 else -1,
            heartbeat_interval_ms=5000,
            assignment=group.Assignment(topic_partitions=more + (assigned if self.partitions else [])),
        )

    def epochs(self) -> list[int]:
        return [request.member_epoch for request in self.heartbeats]


def member(node_id: int, address: str) -> ClusterMember:
    return ClusterMember(f"{node_id}/1", node_id, frozenset({LEADER, GROUP_COORDINATOR}), address)


def catalog(topics: Iterable[Topic] = (TOPIC,)) -> MetadataCache:
    """A metadata cache with these topics that does not change."""
    follower = MetadataCache(MemoryStreamLog(lambda _: 0), BrokerConfig())
    for topic in topics:
        add_topic(follower, topic)
    follower.catalog.cluster_id = "the cluster"
    return follower


def add_topic(cache: MetadataCache, topic: Topic) -> None:
    """Adds a topic to a metadata cache."""
    cache.catalog.apply(TopicRecord(topic), cache.catalog.position + 1)


def refusing(code: ErrorCode) -> Callable[[Any], Any]:
    """A response that rejects every partition."""

    def answer(request: Any) -> Any:
        response = Leader.all_is_well(request)
        for part in getattr(response, "partitions", ()):
            part.error_code = wire(code)
        return response

    return answer
