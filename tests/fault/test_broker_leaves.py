"""One of three brokers leaves, returns and is killed: the others agree on it, and real clients continue."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from operator import ge
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

from tests.support import kafka_client
from tests.support.client import connected
from tests.testkit.brokers import Cluster, Serve, three_brokers
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("broker leaves")
PARTITIONS = 6
METADATA = 3
PATIENCE = 60.0
SETTINGS = (
    "--set",
    "group.share.heartbeat.interval.ms=500",
    "--set",
    "group.share.min.heartbeat.interval.ms=100",
)


class Lost(logging.Handler):
    """Counts partitions without a broker in librdkafka's checks, which run once a second."""

    partitions = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts the line that librdkafka logs for each such partition."""
        self.partitions += "broker is internal: re-query" in record.getMessage()


class Clients:
    """A producer, a consumer of all partitions and a share-group member, each in a thread of its own."""

    def __init__(self, brokers: str, topic: str, group: str) -> None:
        self.delivered: list[str] = []
        self.failed: list[str] = []
        self.consumed: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        self.shared: dict[str, None] = {}
        self.lost = Lost()
        self._topic = topic
        self._group = group
        self._settings = {"bootstrap.servers": brokers, "reconnect.backoff.max.ms": "500"}
        self._over = threading.Event()
        self._producing = threading.Thread(target=self._produce)
        self._consuming = [threading.Thread(target=work) for work in (self._consume, self._share)]

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Waits at the end until the consumers have every delivered record, or until the timeout."""
        for thread in (self._producing, *self._consuming):
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in (self._producing, *self._consuming):
                await asyncio.to_thread(thread.join)

    async def progress(self, records: int = 200) -> None:
        """Waits until each client has progressed by this many records."""
        goals = [done + records for done in self._done()]
        await eventually(lambda: all(map(ge, self._done(), goals)), PATIENCE)

    def _done(self) -> tuple[int, int, int]:
        return len(self.delivered), sum(map(len, self.consumed.values())), len(self.shared)

    def _produce(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True})
        for number in count():
            producer.produce(
                self._topic, str(number), partition=number % PARTITIONS, on_delivery=self._on_delivery
            )
            producer.poll(0.002)
            if self._over.is_set():
                break
        producer.flush(PATIENCE)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered.append(text(message))
        else:
            self.failed.append(str(error))

    def _consume(self) -> None:
        consumer = Consumer({**self._settings, "group.id": "absent", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(PARTITIONS)])

        def take(message: Any) -> None:
            self.consumed[message.partition()].append(text(message))

        self._poll_all(lambda: consumer.consume(100, 0.2), take, lambda: self._done()[1])
        consumer.close()

    def _share(self) -> None:
        logger = logging.Logger(self._group)
        logger.addHandler(self.lost)
        settings = {**self._settings, "group.id": self._group, "debug": "topic", "logger": logger}
        with ShareConsumer(settings) as consumer:
            consumer.subscribe([self._topic])
            self._poll_all(
                lambda: consumer.poll(0.2),
                lambda message: self.shared.setdefault(text(message)),
                lambda: len(self.shared),
            )

    def _poll_all(
        self, poll: Callable[[], Iterable[Any]], take: Callable[[Any], Any], taken: Callable[[], int]
    ) -> None:
        """Ignores the errors that clients report while a broker is unavailable; clients recover
        automatically.
        """
        end = float("inf")
        while self._producing.is_alive() or taken() < len(self.delivered):
            for message in poll():
                if message.error() is None:
                    take(message)
            if self._over.is_set():
                end = min(end, monotonic() + PATIENCE)
            if monotonic() > end:
                return


def text(message: Any) -> str:
    return str(message.value().decode())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with three_brokers(*SETTINGS) as cluster:
        yield cluster


async def seen(serve: Serve, topic: str) -> tuple[set[int], dict[int, int]]:
    """Returns a broker's view: the leader epochs and the leader of each partition."""
    async with kafka_client.connected(serve.kafka) as kafka:
        named = kafka_client.part(METADATA, "MetadataRequestTopic", name=topic)
        response = await kafka.ask(METADATA, 12, topics=[named])
        parts = response.topics[0].partitions
        leaders = {part.partition_index: part.leader_id for part in parts}
        assert {*leaders.values()} <= {broker.node_id for broker in response.brokers}
        return {part.leader_epoch for part in parts}, leaders


async def agreed(serves: Sequence[Serve], topic: str, nodes: set[int], above: int) -> int:
    """Waits until these brokers agree on leaders among these nodes; returns their epoch, which must be higher
    than `above`.
    """

    async def alike() -> bool:
        views = [await seen(serve, topic) for serve in serves]
        return {*views[0][1].values()} == nodes and all(view == views[0] for view in views)

    await eventually(alike, PATIENCE)
    (epoch,), _ = await seen(serves[0], topic)
    assert epoch > above
    return epoch


async def test_clients_recover_when_a_broker_stops_restarts_and_is_killed(cluster: Cluster) -> None:
    one, two, three = cluster.processes
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
        group = await client.group()
    clients = Clients(",".join(serve.kafka for serve in cluster.processes), topic, group)
    async with clients.working():
        epoch = await agreed(cluster.processes, topic, {1, 2, 3}, 0)
        await clients.progress()
        lost = clients.lost.partitions
        assert await asyncio.to_thread(two.stop) == 0
        epoch = await agreed([one, three], topic, {1, 3}, epoch)
        await clients.progress()
        assert clients.lost.partitions == lost
        await asyncio.to_thread(two.start)
        epoch = await agreed(cluster.processes, topic, {1, 2, 3}, epoch)
        await clients.progress()
        await asyncio.to_thread(three.kill)
        await agreed([one, two], topic, {1, 2}, epoch)
        await clients.progress()
    assert clients.failed == []
    for partition, values in clients.consumed.items():
        in_order = sorted(int(value) for value in clients.delivered if int(value) % PARTITIONS == partition)
        assert [int(value) for value in values] == in_order, "each once, in order"
    assert {*clients.shared} == {*clients.delivered}
