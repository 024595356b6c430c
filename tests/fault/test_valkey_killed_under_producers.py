"""The embedded Valkey is killed under librdkafka's pipelining producers: no record is stored twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count

import confluent_kafka
import pytest
import redis

from tests.fault.committed import read
from tests.support.client import TIMEOUT, connected, unique
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("fault-valkey-producers")  # one cluster for all tests

KILLS = 3
PARTITIONS = 12
WRITERS = 2
BETWEEN = 2500
"""Records that are acknowledged between two kills: enough for every partition to have several in flight."""

TRANSACTIONS = 4
"""Transactions that are committed between two kills."""

PER_TRANSACTION = 20 * PARTITIONS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


async def kill_valkey(cluster: Cluster) -> None:
    """Kills the server once it runs; the broker restarts it."""

    def killed() -> bool:
        try:
            with redis.Redis.from_url(cluster.redis_url) as connection:
                os.kill(connection.info("server")["process_id"], signal.SIGKILL)
        except redis.RedisError:
            return False
        return True

    await eventually(killed, 3 * TIMEOUT)


async def test_idempotent_producer_keeps_its_epoch_and_stores_once(cluster: Cluster) -> None:
    """A new epoch would send batches again whose first write may have succeeded."""
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    writers = [_Writer(cluster.kafka, topic) for _ in range(WRITERS)]
    writing = [asyncio.create_task(asyncio.to_thread(writer.write)) for writer in writers]
    try:
        for kill in range(KILLS):
            enough = (kill + 1) * BETWEEN
            await eventually(
                lambda: all(len(writer.acknowledged) >= enough for writer in writers),  # noqa: B023 - called at once
                3 * TIMEOUT,
            )
            await kill_valkey(cluster)
    finally:
        for writer in writers:
            writer.stop = True
        await asyncio.gather(*writing)
    assert [(writer.failed, writer.epochs) for writer in writers] == [([], {0})] * WRITERS
    found = await asyncio.to_thread(read, cluster.kafka, topic, PARTITIONS)
    for writer in writers:
        for partition in range(PARTITIONS):
            values = [value.split("-") for where, value in found if where == partition]
            numbers = [int(number) for name, number in values if name == writer.name]
            assert numbers == list(range(partition, len(writer.acknowledged), PARTITIONS))


async def test_committed_transactions_are_stored_once(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    writer = _TransactionalWriter(cluster.kafka, topic)
    writing = asyncio.create_task(asyncio.to_thread(writer.write))
    try:
        for kill in range(KILLS - 1):
            enough = (kill + 1) * TRANSACTIONS
            await eventually(lambda: len(writer.committed) >= enough, 3 * TIMEOUT)  # noqa: B023 - called at once
            await kill_valkey(cluster)
    finally:
        writer.stop = True
        await writing
    found = Counter(value for _, value in await asyncio.to_thread(read, cluster.kafka, topic, PARTITIONS))
    assert set(found.values()) == {1}
    assert set(Counter(value.partition("-")[0] for value in found).values()) == {PER_TRANSACTION}
    assert writer.committed <= {value.partition("-")[0] for value in found}


class _Writer:
    """Writes consecutive numbers round robin to the partitions until it is stopped.

    `epochs` are the producer epochs that librdkafka reported.
    """

    def __init__(self, address: str, topic: str) -> None:
        self.name = unique("writer").replace("-", "")
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "statistics.interval.ms": 100,
                "stats_cb": self._report,
            }
        )
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.epochs: set[int] = set()
        self.stop = False

    def write(self) -> None:
        for number in count():
            if self.stop:
                break
            value = f"{self.name}-{number}".encode()
            self._producer.produce(
                self._topic, value, partition=number % PARTITIONS, on_delivery=self._produced
            )
            self._producer.poll(0.001 if number % 4 == 0 else 0)
            while len(self._producer) > 10 * BETWEEN:
                self._producer.poll(0.1)
        unsent = self._producer.flush(3 * TIMEOUT)
        del self._producer  # its callbacks refer to this object: librdkafka's threads would outlive the test
        assert unsent == 0

    def _produced(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(error.str())
        else:
            self.acknowledged.append((message.value() or b"").decode())

    def _report(self, statistics: str) -> None:
        producer = json.loads(statistics)["eos"]
        if producer["producer_id"] >= 0:
            self.epochs.add(producer["producer_epoch"])


class _TransactionalWriter:
    """Writes transactions over all partitions until it is stopped."""

    def __init__(self, address: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": address,
            "transactional.id": unique("writer"),
            "linger.ms": 2,
            "metadata.recovery.strategy": "none",
        }
        self._topic = topic
        self._numbers = count()
        self.committed: set[str] = set()
        self.stop = False

    def write(self) -> None:
        """Replaces a producer that failed; the next one aborts the open transaction."""
        while not self.stop:
            producer = confluent_kafka.Producer(self._settings)
            try:
                producer.init_transactions(2 * TIMEOUT)
                while not self.stop:
                    self._transact(producer)
            except confluent_kafka.KafkaException:
                continue

    def _transact(self, producer: confluent_kafka.Producer) -> None:
        name = str(next(self._numbers))
        producer.begin_transaction()
        for number in range(PER_TRANSACTION):
            producer.produce(self._topic, f"{name}-{number}".encode(), partition=number % PARTITIONS)
            if number % PARTITIONS == 0:
                producer.poll(0.002)
        producer.commit_transaction(2 * TIMEOUT)
        self.committed.add(name)
