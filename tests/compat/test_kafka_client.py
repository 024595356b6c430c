"""Our client of another cluster against a real Kafka: what producers wrote arrives as the same batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from sharebroker_server.kafka_client.cluster import EARLIEST, LATEST, ClusterClient
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.core.apis import FETCH, FIRST_FETCH_WITH_TOPIC_IDS
from sharebroker_server.kafka_client.core.fetch_session import FetchSession, Partition, Position
from sharebroker_server.kafka_client.core.record_batches import whole_batches
from sharebroker_server.kafka_client.core.topic_retention import TopicRetention
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse
from sharebroker_server.record_log.core.batch import StoredBatch, stored_batches
from tests.support.client import unique
from tests.support.kafka_jars import SERVER, UPSTREAMS, is_there
from tests.support.kafka_server import KafkaCluster, running_kafka
from tests.support.kafka_tools import needs_kafka
from tests.support.kafka_topics import create_topic, produce

pytestmark = [needs_kafka, pytest.mark.xdist_group("kafka_client")]
SECONDS = 30.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module", params=[SERVER, *UPSTREAMS.values()], ids=lambda jars: jars.version)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    if not is_there(request.param):
        pytest.skip(f"Kafka {request.param.version} is missing: make kafka-upstream")
    with running_kafka(tmp_path_factory.mktemp("kafka"), jars=request.param) as cluster:
        yield cluster


class Reader:
    """Fetches from the one broker, in one session."""

    def __init__(self, kafka: KafkaCluster) -> None:
        host, _, port = kafka.bootstrap.rpartition(":")
        self.cluster = ClusterClient([BrokerAddress(host, int(port))], ConnectionSettings())
        self.session = FetchSession()

    async def fetch(
        self, wanted: dict[tuple[str, int], Position], *, max_wait_ms: int = 0, committed: bool = False
    ) -> dict[tuple[str, int], FetchResponse.PartitionData]:
        """Returns the partitions of a response by topic and number."""
        connection = await self.cluster.connection(0, "fetches")
        by_id = connection.versions.of(FETCH) >= FIRST_FETCH_WITH_TOPIC_IDS
        topics = self.cluster.metadata.topics
        names = {topics[name].id if by_id else name: name for name, _ in wanted}
        refs = {name: ref for ref, name in names.items()}
        asked = self.session.request({(refs[name], index): at for (name, index), at in wanted.items()})
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            isolation_level=int(committed),
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic="" if by_id else ref,
                    topic_id=ref if by_id else "",
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=index,
                            current_leader_epoch=at.leader_epoch,
                            fetch_offset=at.offset,
                            partition_max_bytes=at.max_bytes,
                        )
                    ],
                )
                for (ref, index), at in asked.changed.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic="" if by_id else ref, topic_id=ref if by_id else "", partitions=[index]
                )
                for ref, index in asked.forgotten
            ],
        )
        response = await connection.request(FETCH, request, SECONDS)
        found: dict[Partition, FetchResponse.PartitionData] = {
            (topic.topic_id if by_id else topic.topic, part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        }
        self.session.responded(response.error_code, response.session_id, found)
        return {(names[ref], index): part for (ref, index), part in found.items()}


@pytest.fixture
async def reader(kafka: KafkaCluster) -> AsyncIterator[Reader]:
    made = Reader(kafka)
    yield made
    made.cluster.close()


def batches(part: FetchResponse.PartitionData) -> list[StoredBatch]:
    records = part.records or b""
    return list(stored_batches(records[: whole_batches(records)]))


async def test_batches_of_every_codec_arrive_whole(kafka: KafkaCluster, reader: Reader) -> None:
    topic = create_topic(kafka)
    for codec in CODECS:
        produce(kafka, topic, [b"v" * 1000] * 100, **{"compression.type": codec})
    await reader.cluster.refresh([topic])
    assert (await reader.cluster.listed_offset(topic, 0, EARLIEST, SECONDS)).offset == 0
    end = await reader.cluster.listed_offset(topic, 0, LATEST, SECONDS)
    assert end.offset == 100 * len(CODECS)
    offset = 0
    while offset < end.offset:  # each response ends within a batch
        part = (await reader.fetch({(topic, 0): Position(offset, 60_000)}))[topic, 0]
        assert part.error_code == 0
        assert part.high_watermark == end.offset
        whole = batches(part)
        assert whole[0].base_offset == offset
        offset = whole[-1].last_offset + 1
    assert offset == end.offset
    first_of_all = await reader.cluster.listed_offset(topic, 0, 1, SECONDS)
    assert first_of_all.offset == 0
    assert first_of_all.timestamp > 1
    leader = reader.cluster.metadata.leader(topic, 0)
    assert leader is not None
    ended = await reader.cluster.epoch_end(topic, 0, leader.epoch, SECONDS)
    assert ended == (leader.epoch, end.offset)


async def test_a_session_reports_only_news(kafka: KafkaCluster, reader: Reader) -> None:
    first, second = create_topic(kafka), create_topic(kafka)
    await reader.cluster.refresh([first, second])
    wanted = {(first, 0): Position(0, 1 << 20), (second, 0): Position(0, 1 << 20)}
    assert set(await reader.fetch(wanted)) == set(wanted)
    while await reader.fetch(wanted):
        pass  # the broker of a new topic reports its partitions again once it leads them
    produce(kafka, second, [b"new"])
    news = await reader.fetch(wanted, max_wait_ms=10_000)
    assert set(news) == {(second, 0)}
    assert [batch.last_offset for batch in batches(news[second, 0])] == [0]
    del wanted[second, 0]
    assert await reader.fetch(wanted) == {}


async def test_aborted_transactions_are_listed_for_committed_readers(
    kafka: KafkaCluster, reader: Reader
) -> None:
    topic = create_topic(kafka)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": unique("transaction")}
    )
    producer.init_transactions(SECONDS)
    for commit in (False, True):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.flush(SECONDS)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
    await reader.cluster.refresh([topic])
    part = (await reader.fetch({(topic, 0): Position(0, 1 << 20)}, committed=True))[topic, 0]
    assert [each.first_offset for each in part.aborted_transactions or ()] == [0]
    assert [batch.control for batch in batches(part)] == [False, True, False, True]


async def test_retention_is_that_of_the_configs(kafka: KafkaCluster, reader: Reader) -> None:
    short = create_topic(kafka, config={"retention.ms": "60000", "retention.bytes": "5000"})
    compacted = create_topic(kafka, config={"cleanup.policy": "compact"})
    await reader.cluster.refresh_retention([short, compacted, "missing"])
    assert reader.cluster.retention == {short: TopicRetention(60_000, 5_000), compacted: TopicRetention()}


async def test_added_partitions_and_removed_topics_are_noticed(kafka: KafkaCluster, reader: Reader) -> None:
    topic = create_topic(kafka)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert set((await reader.cluster.refresh()).topics[topic].leaders) == {0}
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    assert (await reader.cluster.listed_offset(topic, 2, LATEST, SECONDS)).offset == 0
    assert set(reader.cluster.metadata.topics[topic].leaders) == {0, 1, 2}
    admin.delete_topics([topic])[topic].result(SECONDS)
    assert topic not in (await reader.cluster.refresh()).topics
