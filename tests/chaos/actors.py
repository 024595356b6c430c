"""All clients of a run, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

from tests.chaos.clients import GRPC, Member, Publisher
from tests.chaos.history import History
from tests.chaos.kafka_clients import KAFKA, JavaMember, KafkaMember, KafkaPublisher, Worker
from tests.chaos.ports import Listeners

_LAST_WORDS = 60.0


@dataclass(frozen=True)
class Size:
    """The numbers of consumers and partitions; `java` is 0 where Kafka's jars are missing."""

    partitions: int = 6
    grpc: int = 12
    librdkafka: int = 6
    java: int = 2
    grpc_producers: int = 2
    kafka_producers: int = 1

    def __str__(self) -> str:
        java = f"{self.java} Java" if self.java else "no Java (make kafka brings its jars)"
        return (
            f"consumers: {self.grpc} gRPC, {self.librdkafka} librdkafka, {java}; producers: "
            f"{self.grpc_producers} gRPC, {self.kafka_producers} librdkafka; {self.partitions} partitions"
        )


class Actors:
    """Producers over gRPC and by Kafka's protocol; consumers of two groups.

    Kafka's producers use the cluster that has the records.
    """

    def __init__(
        self, history: History, listeners: Listeners, topic: str, size: Size, random: Random
    ) -> None:
        self._size = size
        self._over = asyncio.Event()
        servers = listeners.kafka
        self._publishers = [
            Publisher(history, f"p{n}", listeners.address(n), topic, size.partitions)
            for n in range(size.grpc_producers)
        ]
        self._kafka_publishers = [
            KafkaPublisher(history, f"k{n}", listeners.upstream or servers, topic, size.partitions)
            for n in range(size.kafka_producers)
        ]
        self._members = [
            Member(history, f"m{n}", listeners.address(n % 2), topic, Random(random.random()))
            for n in range(size.grpc)
        ]
        self._kafka_members = [
            KafkaMember(history, f"k{n}", servers, topic, Random(random.random()))
            for n in range(size.librdkafka)
        ]
        self._java_members = [JavaMember(history, f"j{n}", servers, topic) for n in range(size.java)]
        self._producers: list[Publisher | KafkaPublisher] = [*self._publishers, *self._kafka_publishers]
        for actor in (GRPC, KAFKA, *(f"publish {one.name}" for one in self._producers)):
            history.sequences.expect([(actor, number) for number in range(size.partitions)])
        self._publishing: list[asyncio.Task[None]] = []
        self._kafka_publishing: list[Worker] = []

    @property
    def sent(self) -> int:
        """Returns how many records the producers were given."""
        return sum(one.sent for one in self._producers)

    @property
    def failed(self) -> int:
        """Returns how many records failed at their producers."""
        return sum(one.failed for one in self._producers)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Runs all clients; at the end the consumers leave."""
        consuming = [asyncio.create_task(member.run()) for member in self._members]
        workers = [Worker(member.run) for member in self._kafka_members]
        workers += [Worker(member.run) for member in self._java_members]
        self._publishing = [asyncio.create_task(one.run(self._over)) for one in self._publishers]
        self._kafka_publishing = [Worker(one.run) for one in self._kafka_publishers]
        try:
            yield
        finally:
            await self.stop_publishing()
            for task in consuming:
                task.cancel()
            for worker in workers:
                worker.stop()
            await asyncio.wait(consuming)
            await asyncio.gather(*(asyncio.to_thread(worker.join, _LAST_WORDS) for worker in workers))

    def accept_at_once(self) -> None:
        """Makes the consumers accept every record at once."""
        for member in self._members:
            member.steady = True
        for kafka_member in self._kafka_members:
            kafka_member.steady = True

    async def stop_publishing(self) -> None:
        """Stops producing; returns when the outcome of every record is known."""
        self._over.set()
        for worker in self._kafka_publishing:
            worker.stop()
        await asyncio.gather(
            *self._publishing, *(asyncio.to_thread(w.join, _LAST_WORDS) for w in self._kafka_publishing)
        )
