"""Idempotent and transactional producers of librdkafka, unmodified, and the records that consumers read."""

from __future__ import annotations

import asyncio
from time import monotonic

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.integration.kafka.harness import Harness
from tests.support.client import TIMEOUT, unique
from tests.support.kafka_client import answered, runs


def producer(address: str, name: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": name})
    made.init_transactions(TIMEOUT)
    return made


def write(to: confluent_kafka.Producer, topic: str, *values: str) -> None:
    """Begins a transaction and waits until its records are in the log."""
    to.begin_transaction()
    for value in values:
        to.produce(topic, value.encode(), partition=0)
    assert to.flush(TIMEOUT) == 0


def read(address: str, topic: str, isolation: str, count: int) -> list[str]:
    """Returns the records that a consumer reads from the start: `count`, and then no more for a moment."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": unique("reader"), "isolation.level": isolation}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[str] = []
        deadline = monotonic() + TIMEOUT
        while len(values) < count and monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append((message.value() or b"").decode())
        assert consumer.poll(0.3) is None
        return values
    finally:
        consumer.close()


async def test_read_committed_returns_no_aborted_records(harness: Harness) -> None:
    topic, _ = await harness.client.create(1)

    def run() -> tuple[list[str], list[str], list[str]]:
        writer = producer(harness.address, unique("writer"))
        write(writer, topic, "a", "b")
        writer.commit_transaction(TIMEOUT)
        write(writer, topic, "wrong")
        writer.abort_transaction(TIMEOUT)
        write(writer, topic, "c")
        writer.commit_transaction(TIMEOUT)
        write(writer, topic, "open")
        committed = read(harness.address, topic, "read_committed", 3)
        everything = read(harness.address, topic, "read_uncommitted", 5)
        writer.commit_transaction(TIMEOUT)
        return committed, everything, read(harness.address, topic, "read_committed", 4)

    committed, everything, after = await asyncio.to_thread(run)
    assert committed == ["a", "b", "c"]
    assert everything == ["a", "b", "wrong", "c", "open"]
    assert after == ["a", "b", "c", "open"]


async def test_second_producer_with_the_same_id_fences_the_first(harness: Harness) -> None:
    topic, _ = await harness.client.create(1)
    name = unique("writer")

    def run() -> list[str]:
        zombie = producer(harness.address, name)
        write(zombie, topic, "lost")
        heir = producer(harness.address, name)
        with pytest.raises(confluent_kafka.KafkaException) as rejected:
            zombie.commit_transaction(TIMEOUT)
        assert rejected.value.args[0].fatal()
        write(heir, topic, "kept")
        heir.commit_transaction(TIMEOUT)
        return read(harness.address, topic, "read_committed", 1)

    assert await asyncio.to_thread(run) == ["kept"]


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_committed", [(0, 2, 1), (5, 7, 1)]), ("read_uncommitted", [(0, 7, 1)])],
)
async def test_share_group_honours_its_isolation_level(
    harness: Harness, isolation: str, expected: list[tuple[int, int, int]]
) -> None:
    at = await harness.readable(0, 1, **{"share.isolation.level": isolation})

    def run() -> None:
        writer = producer(harness.address, unique("writer"))
        write(writer, at.topic, "a", "b")
        writer.commit_transaction(TIMEOUT)  # its marker is at offset 2: clients acknowledge it as a gap
        write(writer, at.topic, "wrong", "too")
        writer.abort_transaction(TIMEOUT)  # at 5
        write(writer, at.topic, "c")
        writer.commit_transaction(TIMEOUT)  # at 7

    await asyncio.to_thread(run)
    async with harness.connect() as kafka:
        member, got = unique("reader"), []
        response = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=5000)
        epoch, deadline = 1, monotonic() + TIMEOUT
        while monotonic() < deadline:
            got += runs(answered(response)[at.topic_id, 0]) if response.responses else []
            if got and got[-1][1] == 7:
                break
            response = await kafka.share_fetch(at.group, member, epoch, {}, max_wait_ms=1000)
            epoch += 1
    assert _merged(got) == expected


def _merged(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Merges adjacent runs."""
    merged: list[tuple[int, int, int]] = []
    for first, last, count in found:
        if merged and merged[-1][1] + 1 == first and merged[-1][2] == count:
            merged[-1] = (merged[-1][0], last, count)
        else:
            merged.append((first, last, count))
    return merged
