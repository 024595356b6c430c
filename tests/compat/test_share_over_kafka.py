"""Share groups over topics of a real Kafka: delivery, and records that the cluster lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from tests.support.kafka_server import KafkaCluster, running_kafka
from tests.support.kafka_tools import needs_kafka
from tests.support.kafka_topics import create_topic, produce
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import ACCEPT, RELEASE, Harness, code

pytestmark = [needs_kafka, pytest.mark.xdist_group("kafka_client")]
SECONDS = 30.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@asynccontextmanager
async def leading(kafka: KafkaCluster, topic: str) -> AsyncIterator[Harness]:
    """A process that leads a topic of the cluster for a group, whose state starts at offset 0."""
    addresses = [BrokerAddress("127.0.0.1", node.port) for node in kafka.brokers.values()]
    client = ClusterClient(addresses, ConnectionSettings())

    def upstream(store: RecordStore) -> UpstreamLogs:
        return UpstreamLogs(client, store)

    await client.leader(topic, 0, SECONDS)  # a broker may not have the new topic yet
    harness = Harness(upstream)
    await harness.start()
    try:
        await harness.create_topic(name=topic, topic_id=client.metadata.topics[topic].id)
        yield harness
    finally:
        await harness.stop()
        client.close()


async def acquired(harness: Harness, **fields: Any) -> list[tuple[int, int]]:
    (part,) = await harness.acquire(**fields)
    assert not part.error_code, part
    return [(each.first_offset, each.last_offset) for each in part.acquired]


async def test_records_are_delivered_once_accepted_and_again_once_released(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    async with leading(kafka, topic) as harness:
        produce(kafka, topic, [b"v"] * 10)
        assert await acquired(harness, max_wait_ms=5000) == [(0, 9)]
        assert code(await harness.acknowledge((0, 4, ACCEPT), (5, 9, RELEASE))) is ErrorCode.NONE
        assert await acquired(harness, max_wait_ms=5000) == [(5, 9)]
        assert code(await harness.acknowledge((5, 9, ACCEPT))) is ErrorCode.NONE
        produce(kafka, topic, [b"v"] * 3)
        assert await acquired(harness, max_wait_ms=5000) == [(10, 12)]
        assert await harness.start_offset() == 10


async def test_changes_of_records_are_refused(kafka: KafkaCluster) -> None:
    async with leading(kafka, create_topic(kafka)) as harness:
        led = await harness.leadership.led(harness.topic_id, 0)
        with pytest.raises(KafkaError, match="another Kafka cluster") as refused:
            _ = led.own_log
        assert refused.value.code is ErrorCode.POLICY_VIOLATION


async def test_deleted_records_are_not_waited_for(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    async with leading(kafka, topic) as harness:
        produce(kafka, topic, [b"v"] * 10)
        assert await acquired(harness, max_records=5, acquire_mode=1, max_wait_ms=5000) == [(0, 4)]
        assert code(await harness.acknowledge((0, 4, RELEASE))) is ErrorCode.NONE
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        (deleted,) = admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 7)]).values()
        deleted.result(SECONDS)
        log = (await harness.leadership.led(harness.topic_id, 0)).log
        await eventually(lambda: log.log_start_offset == 7)
        assert await acquired(harness, max_wait_ms=5000) == [(7, 9)]
        assert code(await harness.acknowledge((7, 9, ACCEPT))) is ErrorCode.NONE
        assert await harness.start_offset() == 10


async def test_a_deleted_topic_ends_deliveries_and_nothing_else(kafka: KafkaCluster) -> None:
    topic, other = create_topic(kafka), create_topic(kafka)
    async with leading(kafka, topic) as harness:
        produce(kafka, topic, [b"v"])
        assert await acquired(harness, max_wait_ms=5000) == [(0, 0)]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.delete_topics([topic])[topic].result(SECONDS)
        assert harness.upstream is not None
        counters = harness.upstream.counters
        await eventually(lambda: counters.errors, SECONDS)
        assert await acquired(harness, max_wait_ms=100) == []
        known = await harness.upstream.client.refresh([other])
        await harness.create_topic(name=other, topic_id=known.topics[other].id)
        produce(kafka, other, [b"v"])
        assert await acquired(harness, max_wait_ms=5000) == [(0, 0)]


async def test_deliveries_go_on_with_the_next_leader(tmp_path: Path) -> None:
    with running_kafka(tmp_path, brokers=2) as kafka:
        topic = create_topic(kafka, copies=2, config={"min.insync.replicas": "1"})
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        async with leading(kafka, topic) as harness:
            produce(kafka, topic, [b"v"] * 10)
            assert await acquired(harness, max_wait_ms=5000) == [(0, 9)]
            leader = admin.list_topics(topic, SECONDS).topics[topic].partitions[0].leader
            kafka.brokers[leader].stop()
            assert code(await harness.acknowledge((0, 4, ACCEPT), (5, 9, RELEASE))) is ErrorCode.NONE
            produce(kafka, topic, [b"v"] * 5)
            log = (await harness.leadership.led(harness.topic_id, 0)).log
            await eventually(lambda: log.records_end_offset == 15, SECONDS)
            assert await acquired(harness, max_wait_ms=5000) == [(5, 9), (10, 14)]
            assert harness.upstream is not None
            assert harness.upstream.counters.truncations == 0


async def test_state_follows_a_log_that_an_unclean_election_cut(tmp_path: Path) -> None:
    with running_kafka(tmp_path, brokers=2) as kafka:
        topic = create_topic(
            kafka, copies=2, config={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        )
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        leader = admin.list_topics(topic, SECONDS).topics[topic].partitions[0].leader
        behind = kafka.brokers[1 - leader]
        async with leading(kafka, topic) as harness:
            produce(kafka, topic, [b"kept"] * 10)
            assert await acquired(harness, max_wait_ms=5000) == [(0, 9)]
            assert code(await harness.acknowledge((0, 9, ACCEPT))) is ErrorCode.NONE
            behind.stop()
            produce(kafka, topic, [b"lost"] * 10)
            assert await acquired(harness, max_wait_ms=5000) == [(10, 19)]
            assert code(await harness.acknowledge((10, 14, ACCEPT))) is ErrorCode.NONE
            await eventually(lambda: harness.persister.written >= 2)
            kafka.brokers[leader].stop()
            behind.start()
            behind.until_ready()
            produce(kafka, topic, [b"new"] * 3)
            log = (await harness.leadership.led(harness.topic_id, 0)).log
            await eventually(lambda: log.records_end_offset == 13, SECONDS)
            assert await acquired(harness, max_wait_ms=5000) == [(10, 12)]
            assert code(await harness.acknowledge((15, 19, ACCEPT))) is not ErrorCode.NONE
            assert code(await harness.acknowledge((10, 12, ACCEPT))) is ErrorCode.NONE
            assert await harness.start_offset() == 13
