"""The topic __consumer_offsets for Kafka clients: the committed offsets of consumer groups, to be
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, OFFSETS_TOPIC, OFFSETS_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.logs import OFFSET_FOR_LEADER_EPOCH, fetch, fetch_topic, list_offset
from tests.support.client import TIMEOUT, unique
from tests.support.client import connected as client_connected
from tests.support.kafka_client import KafkaClient, connected, part
from tests.support.kafka_offsets import Record, fold, read_batches
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

COMMIT, OFFSET_FETCH, DELETE_OFFSETS, DESCRIBE_CONFIGS = 8, 9, 47, 32
SHARDS = 50


async def commit(kafka: KafkaClient, group: str, topic: str, offset: int) -> None:
    row = part(
        COMMIT,
        "OffsetCommitRequestPartition",
        partition_index=0,
        committed_offset=offset,
        committed_metadata="so far",
    )
    of_topic = part(COMMIT, "OffsetCommitRequestTopic", name=topic, partitions=[row])
    response = await kafka.ask(COMMIT, 8, group_id=group, member_id="", topics=[of_topic])
    assert response.topics[0].partitions[0].error_code == 0


async def delete_offsets(kafka: KafkaClient, group: str, topic: str) -> None:
    row = part(DELETE_OFFSETS, "OffsetDeleteRequestPartition", partition_index=0)
    of_topic = part(DELETE_OFFSETS, "OffsetDeleteRequestTopic", name=topic, partitions=[row])
    response = await kafka.ask(DELETE_OFFSETS, 0, group_id=group, topics=[of_topic])
    assert response.topics[0].partitions[0].error_code == 0


async def read(kafka: KafkaClient, partition: int, offset: int, version: int = 18, **fields: Any) -> Any:
    topic = fetch_topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, version, partition=partition, fetch_offset=offset)
    response = await fetch(kafka, version, topic, **fields)
    return response.responses[0].partitions[0]


async def records_of(kafka: KafkaClient, group: str, version: int = 18) -> list[Record]:
    """Returns the offsets that a group has committed and deleted."""
    shard = shard_of(group, SHARDS)
    start = (await list_offset(kafka, OFFSETS_TOPIC, -2, partition=shard)).offset
    found = read_batches((await read(kafka, shard, start, version)).records)
    return [record for record in found if record.key[0] == group]


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_topic_replays_to_the_committed_offsets(
    kafka: KafkaClient, harness: Harness, version: int
) -> None:
    group, (kept, kept_id), (gone, _) = (
        unique("consumers"),
        await harness.client.create(),
        await harness.client.create(),
    )
    await commit(kafka, group, kept, 3)
    await commit(kafka, group, gone, 4)
    await commit(kafka, group, kept, 5)
    await delete_offsets(kafka, group, gone)
    records = await records_of(kafka, group, version)
    assert [record.key for record in records] == [(group, name, 0) for name in (kept, gone, kept, gone)]
    (folded,) = fold(records).values()
    assert (folded.offset, folded.metadata, folded.topic_id) == (5, "so far", kept_id)
    assert await records_of(kafka, group, version) == records


async def test_a_fetch_waits_for_the_next_commit(kafka: KafkaClient, harness: Harness) -> None:
    group, (topic, _) = unique("consumers"), await harness.client.create()
    shard = shard_of(group, SHARDS)
    end = (await list_offset(kafka, OFFSETS_TOPIC, -1, partition=shard)).offset
    async with harness.connect() as other:
        waiting = asyncio.create_task(read(other, shard, end, max_wait_ms=15_000))
        await commit(kafka, group, topic, 7)
        response = await waiting
    assert response.error_code == 0
    assert response.records


async def test_list_offsets_returns_its_start_and_end(kafka: KafkaClient, harness: Harness) -> None:
    group, (topic, _) = unique("consumers"), await harness.client.create()
    await commit(kafka, group, topic, 7)
    shard, (record,) = shard_of(group, SHARDS), await records_of(kafka, group)
    by_time = await list_offset(kafka, OFFSETS_TOPIC, record.timestamp, partition=shard)
    assert by_time.offset <= record.offset
    assert (await list_offset(kafka, OFFSETS_TOPIC, -3, partition=shard)).timestamp >= record.timestamp
    assert (await read(kafka, shard, 10**9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for none in (SHARDS, -1):
        rejected = await list_offset(kafka, OFFSETS_TOPIC, -1, partition=none)
        assert rejected.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = part(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderPartition", partition=shard, leader_epoch=0)
    topics = [part(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderTopic", topic=OFFSETS_TOPIC, partitions=[asked])]
    reach = (await kafka.ask(OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)).topics[0].partitions[0]
    assert (reach.error_code, reach.end_offset > record.offset) == (0, True)


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_reader_of_an_internal_topic_may_commit_its_position(kafka: KafkaClient, name: str) -> None:
    group = unique("consumers")
    await commit(kafka, group, name, 7)
    asked = part(OFFSET_FETCH, "OffsetFetchRequestGroup", group_id=group, topics=None)
    (found,) = (await kafka.ask(OFFSET_FETCH, 8, groups=[asked])).groups
    assert [(topic.name, topic.partitions[0].committed_offset) for topic in found.topics] == [(name, 7)]
    (record,) = await records_of(kafka, group)
    assert (record.key, record.commit and record.commit.topic_id) == (
        (group, name, 0),
        INTERNAL_TOPIC_IDS[name],
    )


async def test_topic_configs_are_kafkas(kafka: KafkaClient) -> None:
    names = ["cleanup.policy", "compression.type", "segment.bytes"]
    asked = part(
        DESCRIBE_CONFIGS,
        "DescribeConfigsResource",
        resource_type=2,
        resource_name=OFFSETS_TOPIC,
        configuration_keys=names,
    )
    (found,) = (await kafka.ask(DESCRIBE_CONFIGS, 4, resources=[asked])).results
    assert {one.name: one.value for one in found.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


# With one shard all records are in it: records of share groups leave gaps.


@pytest.fixture(scope="module")
def one_shard() -> Iterator[Cluster]:
    with one_process("--set", "offsets.topic.num.partitions=1") as cluster:
        yield cluster


@pytest.fixture
async def small(one_shard: Cluster) -> AsyncIterator[Harness]:
    async with client_connected(one_shard.address) as client:
        yield Harness(client, one_shard.kafka)


Place = tuple[int, int]
"""The position of a consumer that has read everything, and the offset it read then."""


def with_librdkafka(address: str, commits: Callable[[], None]) -> Place:
    settings = {"bootstrap.servers": address, "group.id": "absent", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(
        {**settings, "enable.auto.commit": False, "enable.partition.eof": True}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(OFFSETS_TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
        while (message := consumer.poll(TIMEOUT)) is not None and message.error() is None:
            pass
        assert message is not None, "the end was not reached"
        error, stands = message.error(), message.offset()
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
        commits()
        message = consumer.poll(TIMEOUT)
        assert message is not None
        assert message.error() is None
        return stands or 0, message.offset() or 0
    finally:
        consumer.close()


def with_kafka_python(address: str, commits: Callable[[], None]) -> Place:
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    try:
        at = kafka_python.TopicPartition(OFFSETS_TOPIC, 0)
        consumer.assign([at])
        end = consumer.end_offsets([at])[at]
        while consumer.position(at) < end:
            consumer.poll(1000)
        stands = consumer.position(at)
        commits()
        while not (found := consumer.poll(1000)):
            pass
        return stands, found[at][0].offset
    finally:
        consumer.close()


def with_aiokafka(address: str, commits: Callable[[], None]) -> Place:
    async def run() -> Place:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            at = aiokafka.TopicPartition(OFFSETS_TOPIC, 0)
            consumer.assign([at])
            end = (await consumer.end_offsets([at]))[at]
            while await consumer.position(at) < end:
                await consumer.getmany(timeout_ms=1000)
            stands = await consumer.position(at)
            await asyncio.to_thread(commits)
            async with asyncio.timeout(TIMEOUT):
                return stands, (await consumer.getone()).offset
        finally:
            await consumer.stop()

    return asyncio.run(run())


@pytest.mark.parametrize("consume", [with_librdkafka, with_kafka_python, with_aiokafka])
async def test_consumers_skip_hidden_records(
    small: Harness, consume: Callable[[str, Callable[[], None]], Place]
) -> None:
    loop = asyncio.get_running_loop()
    topic, _ = await small.client.create()
    async with small.connect() as kafka:
        await commit(kafka, "readers", topic, 1)
        await small.readable(records=0)  # the group's own records are the last
        end = (await list_offset(kafka, OFFSETS_TOPIC, -1)).offset

        def commits() -> None:
            asyncio.run_coroutine_threadsafe(commit(kafka, "readers", topic, 2), loop).result(TIMEOUT)

        stands, read_then = await asyncio.to_thread(consume, small.address, commits)
        assert (stands, read_then) == (end, end)


async def test_offsets_outlive_a_restart(one_shard: Cluster, small: Harness) -> None:
    topic, _ = await small.client.create()
    async with small.connect() as kafka:
        await commit(kafka, "others", topic, 1)
    before = await _all_of_it(one_shard.kafka)
    await asyncio.to_thread(one_shard.processes[0].restart)

    async def there() -> bool:
        async with connected(one_shard.kafka) as kafka:
            return bool((await read(kafka, 0, 0)).error_code == 0)

    await eventually(there, TIMEOUT)
    assert await _all_of_it(one_shard.kafka) == before
    assert before


async def _all_of_it(address: str) -> list[Record]:
    async with connected(address) as kafka:
        return list(read_batches((await read(kafka, 0, 0)).records))
