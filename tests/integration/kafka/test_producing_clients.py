"""Third-party producers, unmodified: consumers of all libraries receive what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from threading import Event
from typing import Any, Final

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest

from sharebroker import ShareConsumer
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.makers import (
    CONSUMERS,
    PRODUCERS,
    Consume,
    Found,
    Produce,
    Sent,
    consume_with_aiokafka,
    produce_with_aiokafka,
    produce_with_kafka_python,
    produce_with_librdkafka,
    share_consume_with_librdkafka,
)
from tests.support.client import TIMEOUT, unique
from tests.testkit.brokers import Cluster, one_process

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS: Final = {"snappy": "snappy", "lz4": "lz4", "zstd": "zstandard"}
"""Packages that kafka-python needs for a compression."""

RECORDS: Final = (
    Sent(b"all of it", b"key", (("one", b"1"), ("one", b"2"), ("empty", b""))),
    Sent(b"no key"),
    Sent(None, b"tombstone"),
    Sent(b"", b""),
    Sent(b"with a timestamp", b"key", (), 1_234_567_890_123),
    Sent(b"much " * 2000, b"key"),
)

FRAME: Final = 72
"""Bytes of a batch beyond its value, for one record without a key and with some 100 KB."""

TOO_LARGE: Final = (
    aiokafka.errors.MessageSizeTooLargeError,
    kafka.errors.MessageSizeTooLargeError,
    confluent_kafka.KafkaException,
)

each_producer = pytest.mark.parametrize("produce", PRODUCERS, ids=lambda one: one.__name__)
one_process_only = pytest.mark.parametrize("cluster", ["one process"], indirect=True)


def knows(client: Produce | Consume, compression: str) -> bool:
    """Returns whether the installed client supports a compression."""
    codec = CODECS.get(compression)
    return codec is None or not client.__name__.endswith("kafka_python") or find_spec(codec) is not None


def like_librdkafka(produce: Produce, **settings: Any) -> dict[str, Any]:
    """Maps librdkafka's property names to those of the client."""
    if produce is produce_with_librdkafka:
        return settings
    if settings.get("compression_type") == "none":
        del settings["compression_type"]
    if "message_max_bytes" in settings:
        settings["max_request_size"] = settings.pop("message_max_bytes")
    if produce is produce_with_kafka_python and settings.get("acks") in (0, 1):
        settings["enable_idempotence"] = False
    return settings


def share_consumed(address: str, group: str, topic: str, count: int) -> list[Found]:
    """Returns the records that the Python client receives over gRPC."""
    found: list[Found] = []
    with ShareConsumer(address, group, [topic]) as consumer:
        while len(found) < count:
            records = consumer.poll(timeout=TIMEOUT)
            assert records, f"{len(found)} of {count} came"
            found += [
                Found(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in records
            ]
    return found


async def shared_by_librdkafka(harness: Harness, topic: str, count: int) -> list[Found]:
    """Returns the records that a share group of its own receives."""
    group = await harness.client.group()
    return await asyncio.to_thread(share_consume_with_librdkafka, harness.address, group, topic, count)


@one_process_only
@each_producer
@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_consumers_of_all_libraries_read_a_producers_records(
    cluster: Cluster, harness: Harness, produce: Produce, compression: str
) -> None:
    if not knows(produce, compression):
        pytest.skip(f"kafka-python lacks the package {CODECS[compression]}")
    topic, _ = await harness.client.create()
    settings = like_librdkafka(produce, compression_type=compression)
    offsets = await asyncio.to_thread(produce, harness.address, topic, RECORDS, **settings)
    assert offsets == [*range(len(RECORDS))]
    group = await harness.client.group()
    expected = await asyncio.to_thread(share_consumed, cluster.address, group, topic, len(RECORDS))
    assert [found.content for found in expected] == [(one.key, one.value, one.headers) for one in RECORDS]
    assert expected[4].timestamp == RECORDS[4].timestamp
    for consume in CONSUMERS:
        if knows(consume, compression):
            assert await asyncio.to_thread(consume, harness.address, topic, 0, len(RECORDS)) == expected
    assert await shared_by_librdkafka(harness, topic, len(RECORDS)) == expected


@one_process_only
@each_producer
async def test_header_may_lack_a_value(cluster: Cluster, harness: Harness, produce: Produce) -> None:
    if produce is produce_with_kafka_python:
        pytest.skip("kafka-python does not send such headers")
    topic, _ = await harness.client.create()
    headers = (("none", None), ("some", b"1"))
    await asyncio.to_thread(produce, harness.address, topic, [Sent(b"value", headers=headers)])
    group = await harness.client.group()
    (found,) = await asyncio.to_thread(share_consumed, cluster.address, group, topic, 1)
    assert found.headers == headers
    for consume in CONSUMERS:
        assert await asyncio.to_thread(consume, harness.address, topic, 0, 1) == [found]
    assert await shared_by_librdkafka(harness, topic, 1) == [found]


@one_process_only
@each_producer
async def test_log_append_time_is_applied(cluster: Cluster, harness: Harness, produce: Produce) -> None:
    topic, _ = await harness.client.create(message_timestamp_type="LogAppendTime")
    records = [Sent(b"old", timestamp=1), Sent(b"new")]
    settings = like_librdkafka(produce, compression_type="gzip")
    await asyncio.to_thread(produce, harness.address, topic, records, **settings)
    group = await harness.client.group()
    stamped = await asyncio.to_thread(share_consumed, cluster.address, group, topic, 2)
    assert stamped[1].timestamp >= stamped[0].timestamp > 1_700_000_000_000
    for consume in CONSUMERS:
        assert await asyncio.to_thread(consume, harness.address, topic, 0, 2) == stamped
    assert await shared_by_librdkafka(harness, topic, 2) == stamped


@each_producer
async def test_batch_of_the_maximum_size_is_accepted(harness: Harness, produce: Produce) -> None:
    topic, _ = await harness.client.create(max_message_bytes="100000")
    settings = like_librdkafka(produce, message_max_bytes=200_000)
    largest = Sent(b"x" * (100_000 - FRAME))
    assert await asyncio.to_thread(produce, harness.address, topic, [largest], **settings) == [0]
    with pytest.raises(TOO_LARGE, match=r"(?i)too ?large"):
        await asyncio.to_thread(produce, harness.address, topic, [Sent(b"x" * (100_001 - FRAME))], **settings)
    (found,) = await asyncio.to_thread(consume_with_aiokafka, harness.address, topic, 0, 1)
    assert found.value == largest.value


async def test_records_larger_than_the_fetch_limit_are_read(harness: Harness) -> None:
    topic, _ = await harness.client.create(max_message_bytes="4000000")
    records = [Sent(bytes([number]) * 3_900_000) for number in range(2)]
    settings = {"message_max_bytes": 5_000_000}
    await asyncio.to_thread(produce_with_librdkafka, harness.address, topic, records, **settings)
    for consume in CONSUMERS:
        found = await asyncio.to_thread(consume, harness.address, topic, 0, 2)
        assert [one.value for one in found] == [one.value for one in records]
    assert await shared_by_librdkafka(harness, topic, 2) == found


@each_producer
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks_setting_is_accepted(harness: Harness, produce: Produce, acks: int | str) -> None:
    topic, _ = await harness.client.create()
    settings = like_librdkafka(produce, acks=acks)
    await asyncio.to_thread(produce, harness.address, topic, [Sent(b"one"), Sent(b"two")], **settings)
    found = await asyncio.to_thread(consume_with_aiokafka, harness.address, topic, 0, 2)
    assert [one.value for one in found] == [b"one", b"two"]


@each_producer
async def test_large_batches_to_many_partitions_are_accepted(harness: Harness, produce: Produce) -> None:
    topic, _ = await harness.client.create(24)
    records = [Sent(b"x" * 1000, partition=number % 24) for number in range(4800)]
    offsets = await asyncio.to_thread(produce, harness.address, topic, records, linger_ms=20)
    assert sorted(offsets) == sorted([*range(200)] * 24)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """Starts a server that creates topics on demand, for tests that stop it."""
    with one_process("--set", "auto.create.topics.enable=true", "--set", "num.partitions=3") as cluster:
        yield cluster


@each_producer
def test_topic_is_created_by_the_first_write(server: Cluster, produce: Produce) -> None:
    topic = unique("on-demand")
    assert produce(server.kafka, topic, [Sent(b"first", partition=2)]) == [0]
    (found,) = consume_with_aiokafka(server.kafka, topic, 2, 1)
    assert found.value == b"first"


@each_producer
def test_idempotent_producer_survives_a_restart(server: Cluster, produce: Produce) -> None:
    """No record is lost, none is duplicated, and their order stays."""
    topic = unique("restart")
    (serve,) = server.processes
    sent, stopped = Event(), Event()

    def records() -> Iterator[Sent]:
        for number in range(3000):
            if number == 1500:
                sent.set()
                assert stopped.wait(TIMEOUT)
            yield Sent(str(number).encode())

    # Small batches, so that some are in flight, some acknowledged and some not sent yet.
    size = "max_batch_size" if produce is produce_with_aiokafka else "batch_size"
    with ThreadPoolExecutor() as threads:
        settings = {"enable_idempotence": True, size: 500}
        offsets = threads.submit(produce, server.kafka, topic, records(), **settings)
        assert sent.wait(TIMEOUT)
        serve.stop()
        stopped.set()
        serve.start()
        assert offsets.result(TIMEOUT) == [*range(3000)]
    found = consume_with_aiokafka(server.kafka, topic, 0, 3000)
    assert [one.value for one in found] == [str(number).encode() for number in range(3000)]
