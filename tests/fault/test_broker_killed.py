"""One of three brokers is killed under Kafka's Java share consumer; the consumer continues with the
others.
"""

from __future__ import annotations

import shutil
from collections import Counter
from time import monotonic

import pytest

from tests.support.client import connected
from tests.support.java_share_consumer import share_consumer
from tests.support.kafka_jars import CLIENTS, SERVER, is_there
from tests.testkit.brokers import Cluster, three_brokers

SECONDS = 60.0
PARTITIONS = 6
RECORDS = 60
SETTINGS = (
    "--set",
    "group.share.min.heartbeat.interval.ms=100",
    "--set",
    "group.share.heartbeat.interval.ms=500",
)
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("three brokers")]


async def published(address: str, topic: str, texts: range) -> None:
    async with connected(address) as client:
        for number in texts:
            await client.publish(topic, [str(number)], partition=number % PARTITIONS, timeout=SECONDS)


async def prepared(cluster: Cluster) -> tuple[str, str]:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
        group = await client.group()
    await published(cluster.address, topic, range(RECORDS))
    return topic, group


def everywhere(cluster: Cluster) -> str:
    """Returns the addresses of all brokers; the first is the broker that will be killed."""
    return ",".join(serve.kafka for serve in cluster.processes)


async def test_java_consumer_recovers_from_a_killed_broker() -> None:
    jars = CLIENTS[SERVER.version]
    if shutil.which("javac") is None or not is_there(jars):
        pytest.skip("Kafka's jars or a Java 17 with its compiler are missing: make kafka")
    with three_brokers(*SETTINGS) as cluster:
        topic, group = await prepared(cluster)
        with share_consumer(jars, everywhere(cluster), group, topic) as consumer:
            got = Counter(record.value for record in consumer.poll(RECORDS, SECONDS))
            assert set(consumer.commit().values()) <= {"well"}
            assert got == {str(number): 1 for number in range(RECORDS)}
            cluster.processes[0].kill()
            await published(cluster.address, topic, range(RECORDS, 2 * RECORDS))
            deadline = monotonic() + SECONDS
            while len(got) < 2 * RECORDS and monotonic() < deadline:
                got.update(record.value for record in consumer.poll(1, 5.0))
            consumer.close()
        assert set(got) == {str(number) for number in range(2 * RECORDS)}
