"""Reading logs without a group: Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.schema import api_schema
from tests.integration.kafka.harness import Harness, Readable
from tests.integration.kafka.logs import (
    DELETE_RECORDS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PLENTY,
    fetch,
    fetch_one,
    fetch_topic,
    list_offset,
    values,
)
from tests.support.kafka_client import KafkaClient, part
from tests.support.kafka_client import connected as kafka_connected
from tests.support.kafka_clusters import SharebrokerCluster
from tests.testkit.waiting import eventually

LOG_DIRS = 35
NOTHING = "C" * 21 + "A"
RECORDS = [(n, f"record {n}".encode()) for n in range(10)]


def versions(key: int) -> range:
    first, last = api_schema(key).versions
    return range(first, last + 1)


@pytest.fixture
async def at(harness: Harness) -> Readable:
    return await harness.readable()


# Fetch


@pytest.mark.parametrize("version", versions(FETCH))
async def test_fetch_returns_whole_batches_from_an_offset(
    kafka: KafkaClient, at: Readable, version: int
) -> None:
    data = await fetch_one(kafka, at.topic, at.topic_id, 4, version)
    assert (data.error_code, values(data.records)) == (0, RECORDS[4:])
    assert (data.high_watermark, data.last_stable_offset) == (10, 10)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None


async def test_fetch_at_the_end_is_empty_and_beyond_it_an_error(kafka: KafkaClient, at: Readable) -> None:
    end = await fetch_one(kafka, at.topic, at.topic_id, 10)
    assert (end.error_code, end.records, end.high_watermark) == (0, b"", 10)
    for offset in (11, -1):
        beyond = await fetch_one(kafka, at.topic, at.topic_id, offset)
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_a_fetch_waits_for_records(kafka: KafkaClient, harness: Harness, at: Readable) -> None:
    waiting = asyncio.create_task(fetch_one(kafka, at.topic, at.topic_id, 10, max_wait_ms=15_000))
    await harness.client.publish(at.topic, ["late"], partition=0)
    assert values((await waiting).records) == [(10, b"late")]


async def test_fetch_is_limited_to_at_least_one_batch(kafka: KafkaClient, at: Readable) -> None:
    small = await fetch_one(kafka, at.topic, at.topic_id, 0, max_bytes=1)
    assert values(small.records) == RECORDS[:1]
    topic = fetch_topic(at.topic, at.topic_id, 18, fetch_offset=0, partition_max_bytes=2 * len(small.records))
    response = await fetch(kafka, 18, topic)
    assert values(response.responses[0].partitions[0].records) == RECORDS[:2]


async def test_first_partition_may_use_all_bytes(kafka: KafkaClient, harness: Harness) -> None:
    at, other = await harness.readable(), await harness.readable()
    topics = [fetch_topic(one.topic, one.topic_id, 18, fetch_offset=0) for one in (at, other)]
    response = await fetch(kafka, 18, *topics, max_bytes=1)
    assert [len(values(topic.partitions[0].records)) for topic in response.responses] == [1, 0]


@pytest.mark.parametrize(
    ("wrong", "version", "code"),
    [
        ({"topic": "no-such-topic"}, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic_id": NOTHING}, 18, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"topic_id": ""}, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 1}, 18, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, 18, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 0}, 18, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 10**9}, 18, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_fetch_reports_an_unavailable_partition(
    kafka: KafkaClient, at: Readable, wrong: dict[str, Any], version: int, code: ErrorCode
) -> None:
    """The others are served, and a partition of another leader does not delay the response."""
    named = {"topic": at.topic, "topic_id": at.topic_id, "fetch_offset": 0}
    bad = fetch_topic(version=version, **{**named, **wrong})
    good = fetch_topic(at.topic, at.topic_id, version, fetch_offset=10)
    wait = 60_000 if "current_leader_epoch" in wrong else 0
    response = await fetch(kafka, version, bad, good, max_wait_ms=wait)
    assert [topic.partitions[0].error_code for topic in response.responses] == [code, 0]


async def test_deleted_topic_does_not_end_a_long_poll(
    kafka: KafkaClient, harness: Harness, at: Readable
) -> None:
    gone = fetch_topic("", NOTHING, 18, fetch_offset=0)
    here = fetch_topic(at.topic, at.topic_id, 18, fetch_offset=10)
    waiting = asyncio.create_task(fetch(kafka, 18, gone, here, max_wait_ms=15_000))
    await harness.client.publish(at.topic, ["late"], partition=0)
    of_gone, of_here = [topic.partitions[0] for topic in (await waiting).responses]
    assert of_gone.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values(of_here.records) == [(10, b"late")]


async def test_fetch_sessions_are_not_opened(kafka: KafkaClient, at: Readable) -> None:
    topic = fetch_topic(at.topic, at.topic_id, 18, fetch_offset=0)
    for epoch in (0, -1):
        response = await fetch(kafka, 18, topic, session_epoch=epoch)
        assert (response.error_code, response.session_id) == (0, 0)
    for session_id in (0, 7):
        response = await fetch(kafka, 18, topic, session_id=session_id, session_epoch=1)
        assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


async def test_read_committed_lists_only_existing_aborted_transactions(
    kafka: KafkaClient, at: Readable
) -> None:
    data = await fetch_one(kafka, at.topic, at.topic_id, 0, isolation_level=1)
    assert (values(data.records), data.aborted_transactions) == (RECORDS, [])


async def test_empty_request_gets_an_empty_response(kafka: KafkaClient) -> None:
    assert (await fetch(kafka, 18, max_wait_ms=60_000, min_bytes=0)).responses == []


# ListOffsets


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
async def test_list_offsets_returns_log_start_and_end(kafka: KafkaClient, at: Readable, version: int) -> None:
    first, last = [await list_offset(kafka, at.topic, time, version) for time in (-2, -1)]
    assert (first.error_code, first.offset, first.timestamp) == (0, 0, -1)
    assert (last.error_code, last.offset, last.timestamp) == (0, 10, -1)
    assert (last.leader_epoch > 0) is (version >= 4)


async def test_offsets_are_found_by_timestamp(kafka: KafkaClient, at: Readable) -> None:
    first = await list_offset(kafka, at.topic, 0)
    assert first.offset == 0
    assert first.timestamp > 1_700_000_000_000
    newest = await list_offset(kafka, at.topic, -3)
    assert 0 <= newest.offset < 10
    assert newest.timestamp >= first.timestamp
    assert (await list_offset(kafka, at.topic, newest.timestamp)).offset == newest.offset
    late = await list_offset(kafka, at.topic, newest.timestamp + 1)
    assert (late.error_code, late.offset, late.timestamp, late.leader_epoch) == (0, -1, -1, -1)


async def test_timestamps_of_tiered_storage_return_no_offset(kafka: KafkaClient, at: Readable) -> None:
    assert (await list_offset(kafka, at.topic, -4)).offset == 0
    for time in (-5, -6):
        tiered = await list_offset(kafka, at.topic, time)
        assert (tiered.error_code, tiered.offset) == (0, -1)


@pytest.mark.parametrize(("time", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_timestamp_of_a_later_version_is_rejected(
    kafka: KafkaClient, at: Readable, time: int, version: int
) -> None:
    rejected = await list_offset(kafka, at.topic, time, version)
    assert (rejected.error_code, rejected.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


async def test_offsets_of_unknown_partitions_are_errors(kafka: KafkaClient, at: Readable) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await list_offset(kafka, "no-such-topic", -1)).error_code == unknown
    assert (await list_offset(kafka, at.topic, -1, partition=1)).error_code == unknown
    fenced = await list_offset(kafka, at.topic, -1, current_leader_epoch=0)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_duplicate_partition_is_rejected(kafka: KafkaClient, at: Readable) -> None:
    asked = [part(LIST_OFFSETS, "ListOffsetsPartition", partition_index=0, timestamp=t) for t in (-1, -2)]
    topics = [part(LIST_OFFSETS, "ListOffsetsTopic", name=at.topic, partitions=asked)]
    response = await kafka.ask(LIST_OFFSETS, 11, topics=topics)
    assert [one.error_code for one in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", versions(OFFSET_FOR_LEADER_EPOCH))
async def test_every_leader_epoch_ends_at_the_log_end(kafka: KafkaClient, at: Readable, version: int) -> None:
    key = OFFSET_FOR_LEADER_EPOCH
    asked = [
        part(key, "OffsetForLeaderPartition", partition=partition, leader_epoch=epoch)
        for partition, epoch in ((0, 3), (0, -1), (7, 3))
    ]
    topics = [part(key, "OffsetForLeaderTopic", topic=at.topic, partitions=asked)]
    response = await kafka.ask(key, version, topics=topics)
    assert [
        (one.error_code, one.partition, one.leader_epoch, one.end_offset)
        for one in response.topics[0].partitions
    ] == [(0, 0, 3, 10), (0, 0, -1, -1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 7, -1, -1)]


# DeleteRecords


async def delete(kafka: KafkaClient, version: int, topic: str, offset: int, partition: int = 0) -> Any:
    asked = part(DELETE_RECORDS, "DeleteRecordsPartition", partition_index=partition, offset=offset)
    topics = [part(DELETE_RECORDS, "DeleteRecordsTopic", name=topic, partitions=[asked])]
    response = await kafka.ask(DELETE_RECORDS, version, topics=topics, timeout_ms=10_000)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", versions(DELETE_RECORDS))
async def test_delete_records_moves_the_log_start(kafka: KafkaClient, at: Readable, version: int) -> None:
    deleted = await delete(kafka, version, at.topic, 4)
    assert (deleted.error_code, deleted.low_watermark) == (0, 4)
    assert (await list_offset(kafka, at.topic, -2)).offset == 4
    below = await fetch_one(kafka, at.topic, at.topic_id, 3)
    assert below.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    everything = await delete(kafka, version, at.topic, -1)
    assert (everything.error_code, everything.low_watermark) == (0, 10)


async def test_invalid_delete_records_is_rejected(kafka: KafkaClient, at: Readable) -> None:
    beyond = await delete(kafka, 2, at.topic, 11)
    assert (beyond.error_code, beyond.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    for topic, partition in ((at.topic, 1), ("no-such-topic", 0)):
        rejected = await delete(kafka, 2, topic, 0, partition)
        assert rejected.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# DescribeLogDirs


@pytest.mark.parametrize("version", versions(LOG_DIRS))
async def test_log_dirs_report_log_sizes(
    kafka: KafkaClient, harness: Harness, at: Readable, version: int
) -> None:
    asked = [
        part(LOG_DIRS, "DescribableLogDirTopic", topic=at.topic, partitions=[0, 0, 1]),
        part(LOG_DIRS, "DescribableLogDirTopic", topic="no-such-topic", partitions=[0]),
    ]
    response = await kafka.ask(LOG_DIRS, version, topics=asked)
    [place] = response.results
    assert (place.error_code, place.log_dir) == (0, "redis")
    [topic] = place.topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition_index) == (at.topic, 0)
    records = (await fetch_one(kafka, at.topic, at.topic_id, 0, max_bytes=PLENTY)).records
    assert (partition.partition_size, partition.offset_lag) == (len(records), 0)


async def test_every_topic_is_in_the_log_dir(kafka: KafkaClient, at: Readable) -> None:
    [place] = (await kafka.ask(LOG_DIRS, 5, topics=None)).results
    assert at.topic in {topic.name for topic in place.topics}


# Several brokers


async def test_wrong_broker_returns_the_leader_hint(tmp_path: Path) -> None:
    cluster = SharebrokerCluster(tmp_path, 2, {})
    cluster.start()
    try:
        await _ask_both(cluster.addresses)
    finally:
        cluster.stop()


async def _see_both(*clients: KafkaClient) -> bool:
    return all([len((await one.ask(3, 12, topics=[])).brokers) == 2 for one in clients])


async def _ask_both(addresses: dict[int, str]) -> None:
    async with kafka_connected(addresses[0]) as left, kafka_connected(addresses[1]) as right:
        await eventually(lambda: _see_both(left, right))
        metadata = await left.ask(3, 12, topics=None)
        state = next(topic for topic in metadata.topics if topic.is_internal)
        leaders = [one.leader_id for one in sorted(state.partitions, key=lambda one: one.partition_index)]
        assert set(leaders) == {0, 1}
        at = leaders.index(0)
        topic = fetch_topic(state.name, state.topic_id, 18, partition=at, fetch_offset=0)
        served = await fetch(left, 18, topic)
        assert served.responses[0].partitions[0].error_code == 0
        rejected = await fetch(right, 18, topic)
        response = rejected.responses[0].partitions[0]
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert response.current_leader.leader_id == 0
        [endpoint] = rejected.node_endpoints
        assert (endpoint.node_id, f"{endpoint.host}:{endpoint.port}") == (0, addresses[0])
        offset = await list_offset(right, state.name, -1, partition=at)
        assert offset.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
