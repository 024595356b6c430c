"""The group coordinator is killed under a consumer group: members join again, and no offset is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.support.client import TIMEOUT, connected, unique
from tests.testkit.brokers import Cluster, four_processes

RECORDS, KILLS = 30, 2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with four_processes() as cluster:
        yield cluster


async def test_consumer_resumes_at_the_last_committed_offset(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        await client.publish(topic, [str(number) for number in range(RECORDS)], partition=0)
    coordinator = cluster.process("group-coordinator")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.kafka,
            "group.id": unique("consumers"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
        }
    )
    seen: list[int] = []
    committed = 0

    def work(until: int) -> None:
        """Reads, and commits what it read, until the condition holds."""
        nonlocal committed
        while committed < until:
            messages = consumer.consume(1, 3 * TIMEOUT)
            assert messages, f"only {len(seen)} came"
            message = messages[0]
            if message.error() is not None:
                continue
            number = int(message.value() or b"")
            assert number <= committed, "uncommitted records precede later ones"
            seen.append(number)
            try:
                consumer.commit(message=message, asynchronous=False)
            except confluent_kafka.KafkaException:
                continue  # a member that joins again reads it again
            assert number + 1 >= committed, "a coordinator lost an offset"
            committed = max(committed, number + 1)

    consumer.subscribe([topic])
    try:
        for kill in range(KILLS):
            await asyncio.to_thread(work, (kill + 1) * RECORDS // (KILLS + 1))
            await asyncio.to_thread(coordinator.kill)
            await asyncio.to_thread(coordinator.start)
        await asyncio.to_thread(work, RECORDS)
        assert set(seen) == set(range(RECORDS))
    finally:
        consumer.close()
