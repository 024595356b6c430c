"""Topics with records and groups that may read them, for tests of Kafka clients."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.support.client import Client, unique
from tests.support.kafka_client import KafkaClient, answered, connected, runs


@dataclass(frozen=True)
class Readable:
    """A topic of one partition, and a group that has share state of it and no members."""

    group: str
    topic: str
    topic_id: str


@dataclass(frozen=True)
class Harness:
    """`client` prepares the data over gRPC; `address` is the bootstrap address of Kafka clients."""

    client: Client
    address: str

    def connect(self) -> AbstractAsyncContextManager[KafkaClient]:
        """Opens another raw connection."""
        return connected(self.address)

    async def readable(self, records: int = 10, partitions: int = 1, **group_configs: str) -> Readable:
        """Creates a topic with records in partition 0, each in a batch of its own."""
        topic, topic_id = await self.client.create(partitions)
        group = await self.client.group(**group_configs)
        member = unique("starter")
        await self.client.heartbeat(group, member, 0, [topic])
        await self.client.heartbeat(group, member, -1)
        for number in range(records):
            await self.client.publish(topic, [f"record {number}"], partition=0)
        return Readable(group, topic, topic_id)


async def acquire(kafka: KafkaClient, at: Readable, member: str) -> list[tuple[int, int, int]]:
    """Opens a session on partition 0 and acquires its records; returns first and last offset, delivery
    count.
    """
    response = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=5000)
    assert response.error_code == 0
    return runs(answered(response)[at.topic_id, 0])
