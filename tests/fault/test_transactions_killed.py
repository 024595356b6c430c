"""The server is killed under librdkafka producers: no duplicate record, each transaction whole or absent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.fault.committed import read
from tests.support.client import TIMEOUT, connected, unique
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("fault-killed-transactions")  # one cluster for all tests

KILLS = 3
PARTITIONS = 2
MOVED = 1200


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


async def kill(cluster: Cluster) -> None:
    (process,) = cluster.processes
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)


async def test_idempotent_records_are_stored_once_and_in_order(
    cluster: Cluster,
) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    writer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.kafka, "enable.idempotence": True, "linger.ms": 2}
    )
    answered: list[str] = []
    failed: list[str] = []

    def produced(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        (failed if error else answered).append((message.value() or b"").decode())

    def write(numbers: range) -> None:
        for number in numbers:
            writer.produce(topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=produced)
            writer.poll(0.001)

    for number in range(KILLS):
        writing = asyncio.create_task(asyncio.to_thread(write, range(1000 * number, 1000 * (number + 1))))
        await kill(cluster)
        await writing
    assert await asyncio.to_thread(writer.flush, 3 * TIMEOUT) == 0
    assert not failed
    found = await asyncio.to_thread(read, cluster.kafka, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        values = [int(value) for where, value in found if where == partition]
        assert values == list(range(partition, 1000 * KILLS, PARTITIONS))


async def test_transactions_are_atomic(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    books = _Books(cluster.kafka, topic)
    writing = asyncio.create_task(asyncio.to_thread(books.write))
    for _ in range(KILLS):
        await books.grow()
        await kill(cluster)
    await books.grow()
    books.stop = True
    await writing
    found = Counter(await asyncio.to_thread(read, cluster.kafka, topic, PARTITIONS))
    assert set(found.values()) == {1}
    seen: dict[str, set[int]] = {}
    for partition, value in found:
        seen.setdefault(value, set()).add(partition)
    assert set(map(frozenset, seen.values())) == {frozenset(range(PARTITIONS))}
    assert books.committed <= seen.keys()
    assert not books.aborted & seen.keys()


async def test_transactional_consume_and_produce_is_exactly_once(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        target, _ = await client.create(PARTITIONS)
        source, _ = await client.create(PARTITIONS)
        for partition in range(PARTITIONS):
            values = [str(number) for number in range(partition, MOVED, PARTITIONS)]
            await client.publish(source, values, partition=partition)
    mill = _Mill(cluster.kafka, source, target)
    moving = asyncio.create_task(asyncio.to_thread(mill.move))
    for number in range(KILLS):
        enough = (number + 1) * MOVED // (KILLS + 2)
        await eventually(lambda: mill.moved >= enough, 3 * TIMEOUT)  # noqa: B023 - it is called at once
        await kill(cluster)
    await moving
    found = await asyncio.to_thread(read, cluster.kafka, target, PARTITIONS)
    assert sorted(int(value) for _, value in found) == list(range(MOVED))


class _Mill:
    """Consumes in a group and produces what it consumed, in transactions; replaces its clients after
    failures.
    """

    def __init__(self, address: str, source: str, target: str) -> None:
        self._address = address
        self._partitions = [TopicPartition(source, number) for number in range(PARTITIONS)]
        self._target = target
        self._name = unique("mill")
        self.moved = 0

    def move(self) -> None:
        """Moves records until the group has committed all of them."""
        while self.moved < MOVED:
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": self._address,
                    "group.id": self._name,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "session.timeout.ms": 6000,
                    "heartbeat.interval.ms": 200,
                }
            )
            # After librdkafka restarts from its bootstrap servers, it waits in vain for the coordinator that
            # it had cached.
            settings = {"transactional.id": self._name, "metadata.recovery.strategy": "none"}
            producer = confluent_kafka.Producer({"bootstrap.servers": self._address, **settings})
            try:
                producer.init_transactions(2 * TIMEOUT)
                consumer.subscribe([self._partitions[0].topic])
                while self.moved < MOVED:
                    self._transact(consumer, producer)
            except confluent_kafka.KafkaException:
                continue  # the next clients abort open transactions and continue from the committed offsets
            finally:
                consumer.close()

    def _transact(self, consumer: confluent_kafka.Consumer, producer: confluent_kafka.Producer) -> None:
        messages = [one for one in consumer.consume(10, 0.2) if one.error() is None]
        if messages:
            producer.begin_transaction()
            for message in messages:
                producer.produce(self._target, message.value() or b"", partition=message.partition() or 0)
            position = consumer.position(consumer.assignment())
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(position, group, 2 * TIMEOUT)
            producer.commit_transaction(2 * TIMEOUT)
        committed = consumer.committed(self._partitions, 2 * TIMEOUT)
        self.moved = sum(max(0, one.offset) for one in committed)


class _Books:
    """Transactions with a record in each partition, and their outcomes."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._name = unique("writer")
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.stop = False

    async def grow(self) -> None:
        """Waits until a few more transactions are committed."""
        enough = len(self.committed) + 3
        await eventually(lambda: len(self.committed) >= enough, 3 * TIMEOUT)

    def write(self) -> None:
        """Writes until it is stopped, with a new producer where the old one fails fatally."""
        while not self.stop:
            writer = confluent_kafka.Producer(
                {"bootstrap.servers": self._address, "transactional.id": self._name}
            )
            try:
                writer.init_transactions(2 * TIMEOUT)
                while not self.stop:
                    self._transact(writer)
            except confluent_kafka.KafkaException:
                # the next producer aborts open transactions; the outcome of an interrupted commit is unknown
                continue

    def _transact(self, writer: confluent_kafka.Producer) -> None:
        value = unique("t")
        writer.begin_transaction()
        for partition in range(PARTITIONS):
            writer.produce(self._topic, value.encode(), partition=partition)
        if len(self.committed) % 4 == 3 and len(self.aborted) < len(self.committed):
            writer.abort_transaction(2 * TIMEOUT)
            self.aborted.add(value)
        else:
            writer.commit_transaction(2 * TIMEOUT)
            self.committed.add(value)
