"""Third-party clients, unmodified: aiokafka, kafka-python, librdkafka (confluent-kafka)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka as kafka_python

from tests.support.client import TIMEOUT

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A record to produce; times are milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = 0


class Found(NamedTuple):
    """A record as a consumer received it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        """Returns the fields that its producer set."""
        return self.key, self.value, self.headers


class Produce(Protocol):
    """Sends records to a topic and waits for all; the names of properties have _ for dots."""

    __name__: str

    def __call__(self, address: str, topic: str, records: Iterable[Sent], **settings: Any) -> list[int]:
        """Returns the records' offsets, -1 where the client does not report one. Raises the client's
        exception for the first failure.
        """
        ...


class Consume(Protocol):
    """Assigns a partition to itself and reads it."""

    __name__: str

    def __call__(self, address: str, topic: str, partition: int, count: int) -> list[Found]:
        """Returns at least this many records, from the start of the log."""
        ...


def produce_with_aiokafka(address: str, topic: str, records: Iterable[Sent], **settings: Any) -> list[int]:
    """Produces with aiokafka."""

    async def produce() -> list[int]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, **settings)
        await producer.start()
        try:
            under_way = [
                await producer.send(
                    topic,
                    one.value,
                    key=one.key,
                    partition=one.partition,
                    timestamp_ms=one.timestamp,
                    headers=list(one.headers),
                )
                for one in records
            ]
            async with asyncio.timeout(TIMEOUT):
                done = await asyncio.gather(*under_way)
        finally:
            await producer.stop()
        return [-1 if sent is None else sent.offset for sent in done]

    return asyncio.run(produce())


def produce_with_kafka_python(
    address: str, topic: str, records: Iterable[Sent], **settings: Any
) -> list[int]:
    """Produces with kafka-python."""
    producer = kafka_python.KafkaProducer(bootstrap_servers=address, **settings)
    try:
        under_way = [
            producer.send(
                topic,
                one.value,
                key=one.key,
                headers=list(one.headers),
                partition=one.partition,
                timestamp_ms=one.timestamp,
            )
            for one in records
        ]
        return [sent.get(TIMEOUT).offset for sent in under_way]
    finally:
        producer.close()


def produce_with_librdkafka(address: str, topic: str, records: Iterable[Sent], **settings: Any) -> list[int]:
    """Produces with librdkafka."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": address, **names})
    offsets: dict[int, int] = {}
    failures: list[confluent_kafka.KafkaError] = []

    def delivered(number: int) -> Any:
        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            offset = message.offset()
            offsets[number] = -1 if offset is None else offset
            if error is not None:
                failures.append(error)

        return delivered

    for number, one in enumerate(records):
        producer.produce(
            topic,
            value=one.value,
            key=one.key,
            headers=list(one.headers),
            timestamp=one.timestamp or 0,
            partition=one.partition,
            on_delivery=delivered(number),
        )
    assert producer.flush(TIMEOUT) == 0
    if failures:
        raise confluent_kafka.KafkaException(failures[0])
    return [offsets[number] for number in sorted(offsets)]


def consume_with_aiokafka(address: str, topic: str, partition: int, count: int) -> list[Found]:
    """Consumes with aiokafka."""

    async def consume() -> list[Found]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
        await consumer.start()
        try:
            at = aiokafka.TopicPartition(topic, partition)
            consumer.assign([at])
            await consumer.seek_to_beginning(at)
            found: list[Found] = []
            async with asyncio.timeout(TIMEOUT):
                while len(found) < count:
                    records = (await consumer.getmany(at, timeout_ms=500)).get(at, [])
                    found += [
                        Found(one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                        for one in records
                    ]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(consume())


def consume_with_kafka_python(address: str, topic: str, partition: int, count: int) -> list[Found]:
    """Consumes with kafka-python."""
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=address, enable_auto_commit=False, consumer_timeout_ms=TIMEOUT * 1000
    )
    try:
        at = kafka_python.TopicPartition(topic, partition)
        consumer.assign([at])
        consumer.seek_to_beginning(at)
        found: list[Found] = []
        for one in consumer:
            found.append(Found(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)))
            if len(found) == count:
                break
        return found
    finally:
        consumer.close()


def consume_with_librdkafka(address: str, topic: str, partition: int, count: int) -> list[Found]:
    """Consumes with librdkafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "absent",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,  # how long closing takes
        }
    )
    try:
        at = confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)
        consumer.assign([at])
        found: list[Found] = []
        while len(found) < count:
            [message] = consumer.consume(1, TIMEOUT)
            found.append(_found(message))
        return found
    finally:
        consumer.close()


def share_consume_with_librdkafka(address: str, group: str, topic: str, count: int) -> list[Found]:
    """Consumes with librdkafka's share consumer, which accepts what it received."""
    with confluent_kafka.ShareConsumer({"bootstrap.servers": address, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        found: list[Found] = []
        deadline = monotonic() + TIMEOUT
        while len(found) < count and monotonic() < deadline:
            found += map(_found, consumer.poll(0.5))
        return found


def _found(message: confluent_kafka.Message) -> Found:
    offset = message.offset()
    assert message.error() is None
    assert offset is not None
    headers: Any = message.headers() or ()
    return Found(offset, message.timestamp()[1], message.key(), message.value(), tuple(headers))


PRODUCERS: tuple[Produce, ...] = (produce_with_aiokafka, produce_with_kafka_python, produce_with_librdkafka)
CONSUMERS: tuple[Consume, ...] = (consume_with_aiokafka, consume_with_kafka_python, consume_with_librdkafka)
