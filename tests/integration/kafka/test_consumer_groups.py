"""Kafka's consumer groups: consumers share partitions, commit offsets, and resume from these."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka as kafka_python
import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support.client import TIMEOUT, unique
from tests.testkit.waiting import eventually

LONG = 3 * TIMEOUT
"""Seconds; on a busy machine a rebalance takes long."""


async def filled(harness: Harness, partitions: int, records: int) -> str:
    """Creates a topic with this many records, spread over its partitions."""
    topic, _ = await harness.client.create(partitions)
    for number in range(partitions):
        values = [str(one) for one in range(number, records, partitions)]
        await harness.client.publish(topic, values, partition=number)
    return topic


def librdkafka(address: str, group: str, **settings: Any) -> confluent_kafka.Consumer:
    names = {name.replace("__", "."): value for name, value in settings.items()}
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
            **names,
        }
    )


def read(consumer: confluent_kafka.Consumer, count: int) -> list[str]:
    """Reads this many values."""
    found: list[str] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), LONG)
        assert messages, f"only {found} came"
        for message in messages:
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
    return found


def with_librdkafka(address: str, group: str, topic: str, count: int) -> list[str]:
    consumer = librdkafka(address, group)
    try:
        consumer.subscribe([topic])
        found = read(consumer, count)
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def with_kafka_python(address: str, group: str, topic: str, count: int) -> list[str]:
    consumer = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=LONG * 1000,
        max_poll_records=count,
    )
    try:
        found = [next(consumer).value.decode() for _ in range(count)]
        consumer.commit()
        return found
    finally:
        consumer.close()


def with_aiokafka(address: str, group: str, topic: str, count: int) -> list[str]:
    async def consume() -> list[str]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found = [(await consumer.getone()).value.decode() for _ in range(count)]
            await consumer.commit()
            return found
        finally:
            await consumer.stop()

    async def in_time() -> list[str]:
        async with asyncio.timeout(LONG):
            return await consume()

    return asyncio.run(in_time())


Consume = Callable[[str, str, str, int], list[str]]


@pytest.mark.parametrize("consume", [with_librdkafka, with_kafka_python, with_aiokafka])
async def test_next_member_resumes_at_the_committed_offset(harness: Harness, consume: Consume) -> None:
    topic = await filled(harness, 1, 10)
    group = unique("consumers")
    assert await asyncio.to_thread(consume, harness.address, group, topic, 4) == ["0", "1", "2", "3"]
    assert await asyncio.to_thread(consume, harness.address, group, topic, 6) == [
        "4",
        "5",
        "6",
        "7",
        "8",
        "9",
    ]


class Worker:
    """A member that reads in a thread of its own: the values it has `seen`, and the number of partitions
    it `has`.
    """

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.seen: list[str] = []
        self.has = 0
        self._stop = threading.Event()
        self._consumer = librdkafka(address, group)
        self._consumer.subscribe([topic])
        self._work = asyncio.create_task(asyncio.to_thread(self._read))

    async def leave(self) -> None:
        self._stop.set()
        await self._work

    def _read(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(10, 0.1)
            self.seen += [(one.value() or b"").decode() for one in messages if one.error() is None]
            self.has = len(self._consumer.assignment())
        self._consumer.close()


async def test_members_share_partitions_and_take_over_after_a_leave(harness: Harness) -> None:
    topic = await filled(harness, 4, 8)
    group = unique("consumers")
    one, two = (Worker(harness.address, group, topic) for _ in range(2))
    try:
        await eventually(lambda: (one.has, two.has) == (2, 2), LONG)
        await eventually(lambda: {*one.seen, *two.seen} == {str(number) for number in range(8)}, LONG)
        for number in range(4):
            await harness.client.publish(topic, [f"shared {number}"], partition=number)
        shared = {f"shared {number}" for number in range(4)}
        await eventually(lambda: shared <= {*one.seen, *two.seen}, LONG)
        await one.leave()
        await eventually(lambda: two.has == 4, LONG)
        for number in range(4):
            await harness.client.publish(topic, [f"left {number}"], partition=number)
        await eventually(lambda: {f"left {number}" for number in range(4)} <= {*two.seen}, LONG)
        times = Counter([*one.seen, *two.seen])
        assert {times[value] for value in shared} == {1}, "no member reads the partitions of another"
    finally:
        await asyncio.gather(one.leave(), two.leave())


async def test_static_member_returns_without_a_rebalance(harness: Harness) -> None:
    topic = await filled(harness, 1, 4)
    group = unique("consumers")

    def consume(count: int) -> list[str]:
        consumer = librdkafka(harness.address, group, group__instance__id="fixed")
        try:
            consumer.subscribe([topic])
            found = read(consumer, count)
            consumer.commit(asynchronous=False)
            return found
        finally:
            consumer.close()

    assert await asyncio.to_thread(consume, 2) == ["0", "1"]
    assert await asyncio.to_thread(consume, 2) == ["2", "3"]


async def test_administrators_reset_and_delete_offsets(harness: Harness) -> None:
    topic = await filled(harness, 2, 4)
    group = unique("consumers")
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": harness.address})

    def at(*offsets: int) -> list[confluent_kafka.TopicPartition]:
        return [confluent_kafka.TopicPartition(topic, number, one) for number, one in enumerate(offsets)]

    def of(partitions: Iterable[confluent_kafka.TopicPartition] | None) -> Any:
        listed = None if partitions is None else list(partitions)
        return confluent_kafka.ConsumerGroupTopicPartitions(group, listed)

    def offsets() -> list[int]:
        [future] = admin.list_consumer_group_offsets([of(None)]).values()
        return [one.offset for one in future.result(TIMEOUT).topic_partitions]

    [moved] = admin.alter_consumer_group_offsets([of(at(1, 2))]).values()
    moved.result(TIMEOUT)
    assert offsets() == [1, 2]
    [described] = admin.describe_consumer_groups([group]).values()
    assert described.result(TIMEOUT).state == confluent_kafka.ConsumerGroupState.EMPTY
    listed = admin.list_consumer_groups().result(TIMEOUT).valid
    assert group in {one.group_id for one in listed}
    [gone] = admin.delete_consumer_groups([group]).values()
    gone.result(TIMEOUT)
    assert offsets() == []


async def test_consumer_with_assigned_partitions_may_commit(harness: Harness) -> None:
    topic = await filled(harness, 1, 4)
    consumer = librdkafka(harness.address, unique("consumers"))
    try:
        at = confluent_kafka.TopicPartition(topic, 0)
        [before] = consumer.committed([at], TIMEOUT)
        assert before.offset == confluent_kafka.OFFSET_INVALID
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        [message] = await asyncio.to_thread(consumer.consume, 1, LONG)
        consumer.commit(message=message, asynchronous=False)
        [after] = consumer.committed([at], TIMEOUT)
        assert after.offset == 1
    finally:
        consumer.close()


async def test_share_group_is_rejected_as_a_consumer_group(harness: Harness) -> None:
    at = await harness.readable()
    consumer = librdkafka(harness.address, at.group)
    try:
        consumer.subscribe([at.topic])
        message = await asyncio.to_thread(consumer.poll, LONG)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    finally:
        consumer.close()


async def test_new_protocol_is_rejected_at_once(harness: Harness) -> None:
    topic, _ = await harness.client.create()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": harness.address, "group.id": unique("group"), "group.protocol": "consumer"}
    )
    try:
        consumer.subscribe([topic])
        message = await asyncio.to_thread(consumer.poll, LONG)
        assert message is not None
        error = message.error()
        assert error is not None
        assert "API version not supported" in error.str()
    finally:
        consumer.close()
