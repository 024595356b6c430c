"""Unmodified share consumers: librdkafka (confluent-kafka) and Java in three versions."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from time import monotonic
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from sharebroker import aio
from tests.support.client import connected
from tests.support.java_share_consumer import JavaShareConsumer, share_consumer
from tests.support.kafka_jars import CLIENTS, SERVER, JarSet, is_there
from tests.testkit.brokers import Cluster, one_process, three_brokers
from tests.testkit.waiting import eventually

SECONDS = 30.0
SETTINGS = (
    "--set",
    "group.share.heartbeat.interval.ms=500",
    "--set",
    "group.share.min.heartbeat.interval.ms=100",
    "--set",
    "group.share.min.record.lock.duration.ms=1000",
)
pytestmark = pytest.mark.xdist_group("share clients")


@pytest.fixture(scope="module", params=["one broker", "three brokers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    start = one_process if request.param == "one broker" else three_brokers
    with start(*SETTINGS) as cluster:
        yield cluster


BACKOFF: Final = 2.0
RETRYING: Final = {"share_retry_backoff_ms": "2000", "share_retry_backoff_jitter": "0"}


LOCK: Final = 1.0
TIMING_OUT: Final = RETRYING | {"share_record_lock_duration_ms": "1000"}


async def timed_out(cluster: Cluster, group: str) -> None:
    """Waits until the first lock of a group has timed out: that is the first state that is stored."""
    async with aio.Admin(cluster.address) as admin:

        async def stored() -> bool:
            offsets = (await admin.group_offsets(group)).values()
            return any(offset.start_offset is not None for offset in offsets)

        await eventually(stored, SECONDS)


async def prepared(cluster: Cluster, records: int, partitions: int = 1, **configs: str) -> tuple[str, str]:
    """Creates a topic with records spread over its partitions, and a group that reads from the start."""
    async with connected(cluster.address) as client:
        topic, _ = await client.create(partitions)
        for index in range(partitions):
            texts = [f"record {n}" for n in range(index, records, partitions)]
            if texts:
                await client.publish(topic, texts, partition=index)
        return topic, await client.group(**configs)


# librdkafka


def rdkafka(cluster: Cluster, group: str, topic: str, **settings: str) -> Any:
    """Provides a subscribed consumer."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = ShareConsumer({"bootstrap.servers": cluster.kafka, "group.id": group, **names})
    consumer.subscribe([topic])
    return consumer


def polled(consumer: Any, records: int, seconds: float = SECONDS) -> list[Any]:
    """Polls until this many records arrived."""
    got: list[Any] = []
    deadline = monotonic() + seconds
    while len(got) < records and monotonic() < deadline:
        messages = consumer.poll(0.5)
        assert [message.error() for message in messages] == [None] * len(messages)
        got += messages
    return got


async def test_librdkafka_consumes_and_accepts(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 300, partitions=4)
    with rdkafka(cluster, group, topic) as consumer:
        got = polled(consumer, 300)
        assert {message.value().decode() for message in got} == {f"record {n}" for n in range(300)}
        results = consumer.commit_sync(SECONDS)
        assert set(results.values()) <= {None}
    with rdkafka(cluster, group, topic) as consumer:
        assert polled(consumer, 1, seconds=1.5) == []


async def test_librdkafka_releases_and_rejects(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 4)
    with rdkafka(cluster, group, topic, share_acknowledgement_mode="explicit") as consumer:
        got = polled(consumer, 4)
        kinds = [
            AcknowledgeType.ACCEPT,
            AcknowledgeType.RELEASE,
            AcknowledgeType.REJECT,
            AcknowledgeType.ACCEPT,
        ]
        for message, kind in zip(got, kinds, strict=True):
            consumer.acknowledge(message, kind)
        assert list(consumer.commit_sync(SECONDS).values()) == [None]
        (again,) = polled(consumer, 1)
        assert (again.offset(), again.value()) == (1, b"record 1")
        consumer.acknowledge(again)
        assert list(consumer.commit_sync(SECONDS).values()) == [None]


async def test_librdkafkas_released_record_returns_after_the_backoff(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 2, 1, **RETRYING)
    with rdkafka(cluster, group, topic, share_acknowledgement_mode="explicit") as consumer:
        got = polled(consumer, 2)
        consumer.acknowledge(got[0], AcknowledgeType.RELEASE)
        consumer.acknowledge(got[1], AcknowledgeType.ACCEPT)
        released = monotonic()
        assert list(consumer.commit_sync(SECONDS).values()) == [None]
        (again,) = polled(consumer, 1)
        assert (again.offset(), monotonic() - released >= BACKOFF) == (0, True)
        consumer.acknowledge(again)
        assert list(consumer.commit_sync(SECONDS).values()) == [None]


async def test_librdkafkas_record_returns_after_lock_timeout_and_backoff(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 1, 1, **TIMING_OUT)
    with rdkafka(cluster, group, topic) as consumer:
        acquired = monotonic()
        assert [message.offset() for message in polled(consumer, 1)] == [0]
        await timed_out(cluster, group)
        (again,) = polled(consumer, 1)
        assert (again.offset(), monotonic() - acquired >= LOCK + BACKOFF) == (0, True)


async def test_librdkafka_close_releases_unaccepted_records(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 3)
    first = rdkafka(cluster, group, topic, share_acknowledgement_mode="explicit")
    assert len(polled(first, 3)) == 3
    first.close()
    with rdkafka(cluster, group, topic) as second:
        assert [message.value() for message in polled(second, 3)] == [b"record 0", b"record 1", b"record 2"]


async def test_several_consumers_share_one_topic(cluster: Cluster) -> None:
    topic, group = await prepared(cluster, 0, partitions=3)
    consumers = [rdkafka(cluster, group, topic) for _ in range(3)]
    got: Counter[str] = Counter()
    try:
        async with connected(cluster.address) as client:
            for consumer in consumers:
                polled(consumer, 1, seconds=0.5)
            deadline, number = monotonic() + SECONDS, 0
            while len(got) < 90 and monotonic() < deadline:
                if number < 90:
                    texts = [f"record {n}" for n in range(number, number + 10)]
                    await client.publish(topic, texts, partition=number % 3)
                    number += 10
                for consumer in consumers:
                    got.update(message.value().decode() for message in consumer.poll(0.1))
    finally:
        for consumer in consumers:
            consumer.close()
    assert got == {f"record {n}": 1 for n in range(90)}


# Java


EACH_VERSION = pytest.mark.parametrize("version", sorted(CLIENTS))
ONE_VERSION = pytest.mark.parametrize("version", [SERVER.version])


def available(version: str) -> JarSet:
    found = CLIENTS[version]
    if shutil.which("javac") is None or not is_there(found):
        pytest.skip("Kafka's jars or a Java 17 with its compiler are missing: make kafka")
    return found


@pytest.fixture
def jars(version: str) -> JarSet:
    return available(version)


@EACH_VERSION
async def test_java_consumes_and_accepts(cluster: Cluster, jars: JarSet) -> None:
    topic, group = await prepared(cluster, 300, partitions=4)
    with share_consumer(jars, cluster.kafka, group, topic) as consumer:
        got = consumer.poll(300)
        assert {record.value for record in got} == {f"record {n}" for n in range(300)}
        assert {record.delivery_count for record in got} == {1}
        assert set(consumer.commit().values()) == {"well"}
        consumer.close()
    with share_consumer(jars, cluster.kafka, group, topic) as consumer:
        assert consumer.poll(1, seconds=1.5) == []


@EACH_VERSION
async def test_java_acknowledges_single_records_and_renews(cluster: Cluster, jars: JarSet) -> None:
    topic, group = await prepared(cluster, 4)
    mode = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit"}
    with share_consumer(jars, cluster.kafka, group, topic, **mode) as consumer:
        assert [record.offset for record in consumer.poll(4)] == [0, 1, 2, 3]
        for offset, kind in enumerate(("ACCEPT", "RELEASE", "REJECT", "RENEW")):
            consumer.acknowledge(offset, kind)
        assert consumer.commit() == {0: "well"}
        again = consumer.poll(1)
        assert [(record.offset, record.delivery_count) for record in again] == [(3, 1)]  # renewed
        consumer.acknowledge(3, "ACCEPT")
        assert consumer.commit() == {0: "well"}
        again = consumer.poll(1)
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 2)]  # released
        consumer.acknowledge(1, "ACCEPT")
        assert consumer.commit() == {0: "well"}
        consumer.close()


@EACH_VERSION
async def test_javas_released_record_returns_after_the_backoff(cluster: Cluster, jars: JarSet) -> None:
    topic, group = await prepared(cluster, 2, 1, **RETRYING)
    mode = {"share_acknowledgement_mode": "explicit"}
    with share_consumer(jars, cluster.kafka, group, topic, **mode) as consumer:
        assert [record.offset for record in consumer.poll(2)] == [0, 1]
        released = monotonic()
        consumer.acknowledge(0, "RELEASE")
        consumer.acknowledge(1, "ACCEPT")
        assert consumer.commit() == {0: "well"}
        again = consumer.poll(1)
        assert [(record.offset, record.delivery_count) for record in again] == [(0, 2)]
        assert monotonic() - released >= BACKOFF
        consumer.acknowledge(0, "ACCEPT")
        assert consumer.commit() == {0: "well"}
        consumer.close()


@EACH_VERSION
async def test_javas_record_returns_after_lock_timeout_and_backoff(cluster: Cluster, jars: JarSet) -> None:
    topic, group = await prepared(cluster, 1, 1, **TIMING_OUT)
    with share_consumer(jars, cluster.kafka, group, topic) as consumer:
        acquired = monotonic()
        assert [record.delivery_count for record in consumer.poll(1)] == [1]
        await timed_out(cluster, group)
        assert [(record.offset, record.delivery_count) for record in consumer.poll(1)] == [(0, 2)]
        assert monotonic() - acquired >= LOCK + BACKOFF
        consumer.close()


@ONE_VERSION
@pytest.mark.parametrize("how", ["close", "kill"])
async def test_java_records_are_redelivered_after_its_death(cluster: Cluster, jars: JarSet, how: str) -> None:
    topic, group = await prepared(cluster, 3)
    mode = {"share_acknowledgement_mode": "explicit"}
    with share_consumer(jars, cluster.kafka, group, topic, **mode) as first:
        assert len(first.poll(3)) == 3
        getattr(JavaShareConsumer, how)(first)
        with share_consumer(jars, cluster.kafka, group, topic) as second:
            assert [(one.offset, one.delivery_count) for one in second.poll(3)] == [(0, 2), (1, 2), (2, 2)]


@ONE_VERSION
async def test_java_consumes_in_small_batches(cluster: Cluster, jars: JarSet) -> None:
    topic, group = await prepared(cluster, 20)
    settings = {"share_acquire_mode": "record_limit", "max_poll_records": "1"}
    with share_consumer(jars, cluster.kafka, group, topic, **settings) as consumer:
        assert [record.offset for record in consumer.poll(20)] == [*range(20)]
        assert consumer.commit() == {0: "well"}
        consumer.close()
