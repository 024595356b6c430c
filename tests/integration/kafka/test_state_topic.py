"""The topic __share_group_state for Kafka clients: visible to all, and read-only.

Responses and errors are the same for __consumer_offsets, the other internal topic.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, STATE_TOPIC, STATE_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness, Readable
from tests.integration.kafka.logs import (
    DELETE_RECORDS,
    FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    fetch,
    fetch_topic,
    list_offset,
    values,
)
from tests.support.client import REJECT, unique
from tests.support.client import connected as client_connected
from tests.support.kafka_client import KafkaClient, connected, part
from tests.support.kafka_state import Record, fold, read_batches
from tests.testkit.brokers import one_process

METADATA, PRODUCE, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 3, 0, 19, 20, 37
SHARDS = 50


@pytest.fixture
async def at(harness: Harness) -> Readable:
    return await harness.readable()


def shard(at: Readable) -> int:
    return shard_of(f"{at.group}:{at.topic_id}:0", SHARDS)


async def read(kafka: KafkaClient, partition: int, offset: int, version: int = 18, **fields: Any) -> Any:
    topic = fetch_topic(STATE_TOPIC, STATE_TOPIC_ID, version, partition=partition, fetch_offset=offset)
    response = await fetch(kafka, version, topic, **fields)
    return response.responses[0].partitions[0]


async def records_of(kafka: KafkaClient, at: Readable, version: int = 18) -> list[Record]:
    """Returns all stored records of a share-partition."""
    start = (await list_offset(kafka, STATE_TOPIC, -2, partition=shard(at))).offset
    found = list(read_batches((await read(kafka, shard(at), start, version)).records))
    return [record for record in found if record.key == (at.group, at.topic_id, 0)]


@pytest.mark.parametrize("version", range(4, 19))
async def test_topic_replays_to_the_share_state(
    kafka: KafkaClient, harness: Harness, at: Readable, version: int
) -> None:
    member = unique("member")
    held = await harness.client.acquire_all(at.group, at.topic, 10, member)
    await harness.client.acknowledge(at.group, member, held[5:6], REJECT)
    folded = fold(await records_of(kafka, at, version))[at.group, at.topic_id, 0]
    assert folded.offsets == {5: (1, 4)}


async def test_a_fetch_waits_for_the_next_change(kafka: KafkaClient, harness: Harness, at: Readable) -> None:
    end = (await list_offset(kafka, STATE_TOPIC, -1, partition=shard(at))).offset
    partitions = [
        part(FETCH, "FetchPartition", partition=n, fetch_offset=offset, partition_max_bytes=1 << 20)
        for n in range(SHARDS)
        for offset in [(await list_offset(kafka, STATE_TOPIC, -1, partition=n)).offset]
    ]
    topic = part(FETCH, "FetchTopic", topic_id=STATE_TOPIC_ID, partitions=partitions)
    waiting = asyncio.create_task(fetch(kafka, 18, topic, max_wait_ms=15_000))
    held = await harness.client.acquire_all(at.group, at.topic, 1, "another")
    await harness.client.acknowledge(at.group, "another", held)
    answered = (await waiting).responses[0].partitions
    news = {one.partition_index: one for one in answered if one.records}
    assert news
    assert all(one.error_code == 0 for one in answered)
    if shard(at) in news:  # else another test was faster
        assert next(read_batches(news[shard(at)].records)).offset == end


async def test_topic_is_read_beside_other_topics(kafka: KafkaClient, at: Readable) -> None:
    state = fetch_topic(STATE_TOPIC, STATE_TOPIC_ID, 18, partition=shard(at), fetch_offset=0)
    other = fetch_topic(at.topic, at.topic_id, 18, fetch_offset=0)
    first, second = (await fetch(kafka, 18, state, other, max_wait_ms=60_000)).responses
    assert first.partitions[0].records
    assert len(values(second.partitions[0].records)) == 10


async def test_list_offsets_returns_start_and_end(kafka: KafkaClient, at: Readable) -> None:
    records = await records_of(kafka, at)
    first = await list_offset(kafka, STATE_TOPIC, records[0].timestamp, partition=shard(at))
    assert first.offset <= records[0].offset
    newest = await list_offset(kafka, STATE_TOPIC, -3, partition=shard(at))
    assert newest.timestamp >= records[-1].timestamp
    beyond = await read(kafka, shard(at), 10**9)
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for partition in (SHARDS, -1):
        refused = await list_offset(kafka, STATE_TOPIC, -1, partition=partition)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = part(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderPartition", partition=shard(at), leader_epoch=0)
    topics = [part(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderTopic", topic=STATE_TOPIC, partitions=[asked])]
    reach = (await kafka.ask(OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)).topics[0].partitions[0]
    assert (reach.error_code, reach.leader_epoch) == (0, 0)
    assert reach.end_offset > records[-1].offset


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
@pytest.mark.parametrize("by", ["name", "id", "nothing"])
async def test_metadata_lists_the_topic(kafka: KafkaClient, name: str, by: str) -> None:
    fields: dict[str, dict[str, str | None]] = {
        "name": {"name": name},
        "id": {"topic_id": INTERNAL_TOPIC_IDS[name], "name": None},
    }
    asked = None if by == "nothing" else [part(METADATA, "MetadataRequestTopic", **fields[by])]
    response = await kafka.ask(METADATA, 13, topics=asked, allow_auto_topic_creation=True)
    [topic] = [one for one in response.topics if one.name == name]
    assert (topic.error_code, topic.is_internal, topic.topic_id) == (0, True, INTERNAL_TOPIC_IDS[name])
    assert sorted(one.partition_index for one in topic.partitions) == list(range(SHARDS))


async def test_offsets_outlive_a_restart() -> None:
    with one_process("--set", "share.coordinator.state.topic.num.partitions=1") as cluster:
        async with client_connected(cluster.address) as client:
            await Harness(client, cluster.kafka).readable(records=1)
        before = await _all_of_it(cluster.kafka)
        await asyncio.to_thread(cluster.processes[0].restart)
        after = await _all_of_it(cluster.kafka)
    assert before
    assert after == before


async def _all_of_it(address: str) -> list[Record]:
    async with connected(address) as kafka:
        return list(read_batches((await read(kafka, 0, 0)).records))


# Rejected requests, for this topic and for __consumer_offsets


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_produce_is_rejected(kafka: KafkaClient, name: str) -> None:
    asked = part(PRODUCE, "PartitionProduceData", index=0, records=b"")
    for version, named in ((12, {"name": name}), (13, {"topic_id": INTERNAL_TOPIC_IDS[name]})):
        topics = [part(PRODUCE, "TopicProduceData", partition_data=[asked], **named)]
        response = await kafka.ask(PRODUCE, version, acks=1, timeout_ms=1000, topic_data=topics)
        error = response.responses[0].partition_responses[0].error_code
        assert error == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_delete_records_is_rejected(kafka: KafkaClient, name: str) -> None:
    asked = part(DELETE_RECORDS, "DeleteRecordsPartition", partition_index=0, offset=-1)
    topics = [part(DELETE_RECORDS, "DeleteRecordsTopic", name=name, partitions=[asked])]
    response = await kafka.ask(DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
    refused = response.topics[0].partitions[0]
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_topic_cannot_be_created_deleted_or_extended(kafka: KafkaClient, name: str) -> None:
    new = part(CREATE_TOPICS, "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
    made = await kafka.ask(CREATE_TOPICS, 7, topics=[new], timeout_ms=5000)
    assert made.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    for named in ({"name": name}, {"name": None, "topic_id": INTERNAL_TOPIC_IDS[name]}):
        gone = [part(DELETE_TOPICS, "DeleteTopicState", **named)]
        deleted = await kafka.ask(DELETE_TOPICS, 6, topics=gone, timeout_ms=5000)
        assert deleted.responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    wider = part(CREATE_PARTITIONS, "CreatePartitionsTopic", name=name, count=99, assignments=None)
    widened = await kafka.ask(CREATE_PARTITIONS, 3, topics=[wider], timeout_ms=5000)
    assert widened.results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_share_groups_cannot_subscribe(kafka: KafkaClient, name: str) -> None:
    """Kafka permits it; here no share group can subscribe to the topic."""
    joined = await kafka.heartbeat(unique("group"), unique("member"), 0, subscribed_topic_names=[name])
    assert (joined.error_code, joined.assignment.topic_partitions) == (0, [])


@pytest.mark.parametrize("name", INTERNAL_TOPIC_IDS)
async def test_grpc_clients_cannot_access_it(harness: Harness, name: str) -> None:
    with pytest.raises(Exception, match="internal"):
        await harness.client.publish(name, ["x"])
