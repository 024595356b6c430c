"""The log of a partition of a real Kafka: growth, reads, transactions, deletions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from sharebroker_server.upstream_log.upstream_cluster import Limits, ReadSettings
from sharebroker_server.upstream_log.upstream_log import UpstreamLog
from tests.support.client import unique
from tests.support.kafka_server import KafkaCluster, running_kafka
from tests.support.kafka_tools import needs_kafka
from tests.support.kafka_topics import create_topic, produce
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.waiting import eventually

pytestmark = [needs_kafka, pytest.mark.xdist_group("kafka_client")]
SECONDS = 30.0
ALL = 1 << 20
NAME = "partition:t:0"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@asynccontextmanager
async def following(
    kafka: KafkaCluster, topic: str, store: MemoryRecordStore | None = None, limits: Limits | None = None
) -> AsyncIterator[UpstreamLog]:
    host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
    client = ClusterClient([BrokerAddress(host, int(port))], ConnectionSettings())
    logs = UpstreamLogs(client, store or MemoryRecordStore(), ReadSettings(limits=limits or Limits()))
    lease = Lease()
    try:
        log = await logs.open(NAME, lease.epoch, topic, "", 0, lease)
        yield log
        await log.close()
    finally:
        await logs.close()
        client.close()


async def read_all(log: UpstreamLog, offset: int = 0, *, committed: bool = False) -> list[StoredBatch]:
    found: list[StoredBatch] = []
    end = log.last_stable_offset if committed else log.records_end_offset
    while offset < end:
        read = await log.read(offset, ALL, committed=committed)
        assert read
        found += read
        offset = read[-1].last_offset + 1
    return found


async def test_records_arrive_without_a_reader(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    produce(kafka, topic, [b"before"] * 3)
    async with following(kafka, topic) as log:
        assert (log.log_start_offset, log.records_end_offset, log.last_stable_offset) == (0, 3, 3)
        assert [batch.last_offset for batch in await log.read(0, ALL)] == [2]
        assert await log.read(3, ALL) == []
        grown = []
        log.on_append.append(lambda: grown.append(log.records_end_offset))
        produce(kafka, topic, [b"after"] * 2)
        await eventually(lambda: log.records_end_offset == 5)
        assert grown[-1] == 5
        hot = log.read_hot(3, ALL)
        assert hot is not None
        assert [batch.last_offset for batch in hot] == [4]


async def test_readers_behind_the_tail_read_everything(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    async with following(kafka, topic, limits=Limits(cached=200_000, tail=100_000)) as log:
        produce(kafka, topic, [b"v" * 1000] * 3000, **{"batch.size": 50_000})
        await log.refresh()
        assert log.records_end_offset == 3000
        offsets = [offset for b in await read_all(log) for offset in range(b.base_offset, b.last_offset + 1)]
        assert offsets == list(range(3000))
        produce(kafka, topic, [b"end"])
        await eventually(lambda: log.records_end_offset == 3001)
        assert await log.offset_for_timestamp(0) is not None
        newest = await log.offset_of_newest()
        assert newest is not None
        assert newest.offset == 3000


async def test_aborted_transactions_are_known_for_committed_readers(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    async with following(kafka, topic) as log:
        produce(kafka, topic, [b"plain"])
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap, "transactional.id": unique("transaction")}
        )
        producer.init_transactions(SECONDS)
        for commit in (False, True):
            producer.begin_transaction()
            producer.produce(topic, b"value", partition=0)
            producer.flush(SECONDS)
            await eventually(lambda: log.last_stable_offset < log.records_end_offset)
            if commit:
                producer.commit_transaction(SECONDS)
            else:
                producer.abort_transaction(SECONDS)
            await eventually(lambda: log.last_stable_offset == log.records_end_offset)
        assert log.records_end_offset == 5
        batches = await read_all(log, committed=True)
        assert [batch.control for batch in batches] == [False, False, True, False, True]
        assert log.aborted_batches(batches) == [(1, 1)]
        assert len(await read_all(log)) == 5


async def test_deleted_records_move_the_log_start(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka)
    produce(kafka, topic, [b"v"] * 10)
    async with following(kafka, topic) as log:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        (deleted,) = admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 7)]).values()
        deleted.result(SECONDS)
        await eventually(lambda: log.log_start_offset == 7)
        with pytest.raises(KafkaError) as rejected:
            await log.read(3, ALL)
        assert rejected.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert [batch.last_offset for batch in await log.read(7, ALL)] == [9]
