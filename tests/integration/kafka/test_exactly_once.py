"""Consume, transform, produce: librdkafka commits input offsets and output records in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.integration.kafka.harness import Harness
from tests.integration.kafka.test_consumer_groups import LONG, filled, librdkafka
from tests.support.client import unique

RECORDS, PARTITIONS = 40, 2


class Worker:
    """Reads a topic in a consumer group and writes its records to another, in transactions."""

    def __init__(self, address: str, source: str, target: str, group: str, name: str) -> None:
        self.source, self.target = source, target
        self.consumer = librdkafka(
            address, group, enable__auto__commit=False, isolation__level="read_committed"
        )
        self.producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": name})
        self.producer.init_transactions(LONG)
        self.consumer.subscribe([source])

    def work(self, most: int) -> int:
        """Does everything but end the transaction; returns the number of its records."""
        first = self.consumer.poll(LONG)
        assert first is not None
        messages = [first, *self.consumer.consume(most - 1, 0.2)]
        self.producer.begin_transaction()
        for message in messages:
            assert message.error() is None, message.error()
            self.producer.produce(self.target, message.value(), partition=message.partition() or 0)
        position = self.consumer.position(self.consumer.assignment())
        self.producer.send_offsets_to_transaction(position, self.consumer.consumer_group_metadata(), LONG)
        return len(messages)

    def abort(self) -> None:
        """Aborts, and returns to the committed offsets."""
        self.producer.abort_transaction(LONG)
        for at in self.consumer.committed(self.consumer.assignment(), LONG):
            self.consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))

    def committed(self) -> list[int]:
        """Returns the group's committed offset of each partition, -1001 for none."""
        asked = [TopicPartition(self.source, number) for number in range(PARTITIONS)]
        return [one.offset for one in self.consumer.committed(asked, LONG)]


@contextmanager
def worker(*arguments: str) -> Iterator[Worker]:
    made = Worker(*arguments)
    try:
        yield made
    finally:
        made.consumer.close()


def read(address: str, topic: str, count: int) -> list[int]:
    """Returns the numbers in a topic as a read_committed consumer sees them: this many, then no more."""
    consumer = librdkafka(
        address, unique("reader"), isolation__level="read_committed", enable__partition__eof=True
    )
    found: list[int] = []
    ended = 0
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while ended < PARTITIONS or len(found) < count:
            message = consumer.poll(LONG)
            assert message is not None, f"only {found} came"
            if message.error() is None:
                found.append(int(message.value() or b""))
            else:
                ended += 1
        return found
    finally:
        consumer.close()


@pytest.fixture
async def names(harness: Harness) -> tuple[str, str, str, str, str]:
    """Returns address, a topic with numbers, an empty topic, a group and a transactional id."""
    target, _ = await harness.client.create(PARTITIONS)
    source = await filled(harness, PARTITIONS, RECORDS)
    return harness.address, source, target, unique("group"), unique("worker")


async def test_aborted_records_are_read_again_and_count_once(names: tuple[str, str, str, str, str]) -> None:
    def run() -> list[int]:
        done, turn = 0, 0
        with worker(*names) as one:
            assert one.committed() == [-1001, -1001]
            while done < RECORDS:
                turn += 1
                count = one.work(7)
                if turn % 2:
                    one.abort()
                else:
                    one.producer.commit_transaction(LONG)
                    done += count
                assert sum(max(0, offset) for offset in one.committed()) == done
        return read(names[0], names[2], RECORDS)

    assert sorted(await asyncio.to_thread(run)) == list(range(RECORDS))


async def test_successor_of_a_crashed_worker_repeats_its_open_work(
    names: tuple[str, str, str, str, str],
) -> None:
    def run() -> list[int]:
        with worker(*names) as crashed:
            done = crashed.work(6)
            crashed.producer.commit_transaction(LONG)
            assert crashed.work(6)  # and does nothing more, with a transaction open
        with worker(*names) as heir:
            while done < RECORDS:
                done += heir.work(9)
                heir.producer.commit_transaction(LONG)
        with pytest.raises(confluent_kafka.KafkaException) as rejected:
            crashed.producer.commit_transaction(LONG)
        assert rejected.value.args[0].fatal()
        return read(names[0], names[2], RECORDS)

    assert sorted(await asyncio.to_thread(run)) == list(range(RECORDS))
