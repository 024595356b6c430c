"""Share sessions by single requests: one member's requests, epoch by epoch, over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import grpc

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import (
    admin_pb2_grpc,
    produce_pb2,
    produce_pb2_grpc,
    share_pb2,
    share_pb2_grpc,
)
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from tests.testkit.waiting import eventually

ACCEPT, RELEASE, REJECT = 1, 2, 3
_numbers = count()
Runs = list[tuple[int, int]]


class Connection:
    """A connection to the gateway."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.share: Any = share_pb2_grpc.ShareServiceStub(channel)
        self.produce: Any = produce_pb2_grpc.ProduceServiceStub(channel)
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)

    async def topic(self, partitions: int = 1) -> Topic:
        """Creates a topic."""
        name = f"topic-{next(_numbers)}-{uuid4().hex[:8]}"
        asked = cluster.CreateTopicsRequest.Topic(name=name, num_partitions=partitions)
        (made,) = (await self.admin.CreateTopics(cluster.CreateTopicsRequest(topics=[asked]))).topics
        return Topic(self, name, made.topic_id, partitions)

    async def group(self, topic: Topic, **settings: str) -> str:
        """Creates a group that reads from the start, with its state initialised by a member that left
        again.
        """
        group_id = f"group-{next(_numbers)}-{uuid4().hex[:8]}"
        settings = {"share_auto_offset_reset": "earliest"} | settings
        configs = [
            cluster.IncrementalAlterConfigsRequest.Config(name=name.replace("_", "."), value=value)
            for name, value in settings.items()
        ]
        resource = cluster.IncrementalAlterConfigsRequest.Resource(
            resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=group_id, configs=configs
        )
        request = cluster.IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = (await self.admin.IncrementalAlterConfigs(request)).responses
        assert not result.error_code, result.error_message
        await self._initialise(group_id, topic)
        return group_id

    async def heartbeat(self, group_id: str, member_id: str, epoch: int, *topics: str) -> Any:
        names = group.TopicNames(names=topics) if topics else None
        return await self.share.ShareGroupHeartbeat(
            group.ShareGroupHeartbeatRequest(
                group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
            )
        )

    async def _initialise(self, group_id: str, topic: Topic) -> None:
        async def initialised() -> bool:
            response = await self.heartbeat(group_id, "initialiser", 0, topic.name)
            return (
                sum(len(part.partitions) for part in response.assignment.topic_partitions) == topic.partitions
            )

        await eventually(initialised)
        await self.heartbeat(group_id, "initialiser", -1)


@dataclass(frozen=True)
class Topic:
    """A topic of a test."""

    connection: Connection
    name: str
    topic_id: str
    partitions: int

    async def publish(self, records: int, partition: int = 0) -> None:
        """Publishes single-record batches, one call each, so that they stay single."""
        for number in range(records):
            record = produce_pb2.PublishRecord(text=str(number), partition=partition)
            await self.connection.produce.Publish(
                produce_pb2.PublishRequest(topic=self.name, records=[record])
            )


@dataclass
class Session:
    """A member that counts its share session epoch."""

    topic: Topic
    group_id: str
    member_id: str = field(default_factory=lambda: uuid4().hex)
    epoch: int = 0
    limits: dict[str, Any] = field(default_factory=dict)

    async def fetch(self, *partitions: int, epoch: int | None = None, **more: Any) -> Any:
        """Sends one ShareFetch; the epoch increases when it succeeds."""
        used = self.epoch if epoch is None else epoch
        acks = more.pop("acks", ())
        parts = [
            share_pb2.ShareFetchRequest.FetchPartition(
                partition_index=index, acknowledgement_batches=batches(acks)
            )
            for index in partitions
        ]
        topics = [share_pb2.ShareFetchRequest.FetchTopic(topic_id=self.topic.topic_id, partitions=parts)]
        usual = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        request = share_pb2.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=used,
            topics=topics if partitions else [],
            **usual | self.limits | more,
        )
        response = await self.topic.connection.share.ShareFetch(request)
        self.epoch = used + 1 if used >= 0 else 0
        return response

    async def first_fetch(self, *partitions: int, **more: Any) -> Any:
        """Fetches with epoch 0 until every partition can be fetched, like Kafka's wire tests."""
        found: list[Any] = []

        async def all_there() -> bool:
            response = await self.fetch(*partitions, epoch=0, **more)
            found[:] = [response]
            return not any(part.error_code for part in parts_of(response).values())

        await eventually(all_there)
        return found[0]

    async def acknowledge(
        self, kind: int, first: int, last: int, *, partition: int = 0, epoch: int | None = None
    ) -> Any:
        """Sends one ShareAcknowledge, of partition 0; returns its response."""
        used = self.epoch if epoch is None else epoch
        part = share_pb2.ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=partition, acknowledgement_batches=batches([(kind, first, last)])
        )
        topic = share_pb2.ShareAcknowledgeRequest.AcknowledgeTopic(
            topic_id=self.topic.topic_id, partitions=[part]
        )
        request = share_pb2.ShareAcknowledgeRequest(
            group_id=self.group_id, member_id=self.member_id, share_session_epoch=used, topics=[topic]
        )
        response = await self.topic.connection.share.ShareAcknowledge(request)
        self.epoch = used + 1 if used >= 0 else 0
        return parts_of(response)[0]


def batches(acks: Iterable[tuple[int, int, int]]) -> list[share_pb2.AcknowledgementBatch]:
    return [
        share_pb2.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        for kind, first, last in acks
    ]


def parts_of(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def acquired(response: Any, partition: int = 0) -> Runs:
    """Returns the offsets that a fetch acquired in a partition."""
    part = parts_of(response).get(partition)
    return [(run.first_offset, run.last_offset) for run in part.acquired_records] if part else []


def counts(response: Any, partition: int = 0) -> list[int]:
    """Returns the delivery count of each run."""
    return [run.delivery_count for run in parts_of(response)[partition].acquired_records]


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Connection]:
    """Connects to a gateway."""
    async with grpc.aio.insecure_channel(address) as channel:
        yield Connection(channel)


RECORD_LIMIT = delivery.ACQUIRE_MODE_RECORD_LIMIT
