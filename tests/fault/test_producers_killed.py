"""Processes and Redis are killed under a Python producer: each record is stored once, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from sharebroker import KafkaError, Producer, ProducerConfig
from sharebroker.producer.buffer import Publication
from tests.fault.committed import read
from tests.support.client import TIMEOUT, connected
from tests.testkit.brokers import Cluster, four_processes
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("fault-python-producers")  # one cluster for all tests

PARTITIONS = 4
KILLS = 3
BETWEEN = 1000
"""Records that are confirmed between two kills."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with four_processes() as cluster:
        yield cluster


@pytest.mark.parametrize("killed", ["share-partition-leader", "gateway", "group-coordinator", "redis"])
async def test_a_python_producer_stores_each_record_once(cluster: Cluster, killed: str) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    writer = _Writer(cluster.address, topic)
    writing = asyncio.create_task(asyncio.to_thread(writer.write))
    try:
        for kill in range(KILLS):
            enough = (kill + 1) * BETWEEN
            await eventually(lambda: writer.confirmed >= enough, 3 * TIMEOUT)  # noqa: B023 - called at once
            await asyncio.to_thread(_kill, cluster, killed)
    finally:
        writer.stop = True
        await writing
    assert not writer.failed
    found = await asyncio.to_thread(read, cluster.kafka, topic, PARTITIONS)
    assert set(Counter(value for _, value in found).values()) == {1}
    for partition in range(PARTITIONS):
        stored = [int(value) for where, value in found if where == partition]
        assert stored == list(range(partition, writer.confirmed, PARTITIONS))


def _kill(cluster: Cluster, killed: str) -> None:
    """Kills and starts it again."""
    if killed == "redis":
        assert cluster.redis is not None
        cluster.redis.kill()
        cluster.redis.restart()
    else:
        cluster.process(killed).kill()
        cluster.process(killed).start()


class _Writer:
    """Writes consecutive numbers round robin to the partitions until it is stopped."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self.confirmed = 0
        self.failed: list[str] = []
        self.stop = False

    def write(self) -> None:
        config = ProducerConfig(batch_size=200, buffer_memory=4_000)  # several batches in a request
        with Producer(self._address, config) as producer:
            waiting = []
            for number in count():
                if self.stop:
                    break
                partition = number % PARTITIONS
                waiting.append(producer.send(self._topic, b"%d" % number, partition=partition))
                if len(waiting) == 10 * PARTITIONS:
                    self._confirm(waiting)
                    waiting = []
            self._confirm(waiting)

    def _confirm(self, waiting: list[Publication]) -> None:
        for sent in waiting:
            try:
                sent.result(3 * TIMEOUT)
            except KafkaError as error:
                self.failed.append(str(error))
            else:
                self.confirmed += 1
