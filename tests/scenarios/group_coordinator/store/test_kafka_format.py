"""A shard's log as a partition of __consumer_offsets: commits, and gaps where other records are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as consumers_pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as log_pb
from sharebroker_server.record_log.core.batch import header_of
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster
from tests.support.kafka_offsets import Record, read_batches

PLENTY = 1 << 20
ONE_SHARD = "offsets.topic.num.partitions=1"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.close()


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1, ONE_SHARD)


async def commit(broker: Broker, topic_id: str, offset: int, group: str = "readers") -> None:
    request = consumers_pb.OffsetCommitRequest(group_id=group, generation_id=-1)
    request.partitions.add(
        topic_id=topic_id, partition=0, committed_offset=offset, committed_leader_epoch=-1, metadata="so far"
    )
    response = await broker.until(lambda: broker.groups.OffsetCommit(request, CONTEXT))
    assert [one.error_code for one in response.partitions] == [0]


async def delete_offsets(broker: Broker, topic_id: str) -> None:
    request = consumers_pb.OffsetDeleteRequest(group_id="readers")
    request.partitions.add(topic_id=topic_id, partition=0)
    await broker.groups.OffsetDelete(request, CONTEXT)


async def fetch(broker: Broker, offset: int, max_bytes: int = PLENTY) -> log_pb.FetchShareGroupStateResponse:
    request = log_pb.FetchShareGroupStateRequest(shard=0, fetch_offset=offset, max_bytes=max_bytes)
    response: log_pb.FetchShareGroupStateResponse = await broker.groups.FetchGroupLog(request, CONTEXT)
    return response


async def records(broker: Broker, offset: int = 0, max_bytes: int = PLENTY) -> list[Record]:
    return list(read_batches((await fetch(broker, offset, max_bytes)).record_batches))


async def find(broker: Broker, timestamp: int, shard: int = 0) -> tuple[int, int]:
    request = log_pb.FindShareGroupStateOffsetRequest(shard=shard, timestamp=timestamp)
    found = await broker.groups.FindGroupLogOffset(request, CONTEXT)
    return found.offset, found.timestamp


async def test_commits_and_tombstones_are_read_by_offset(broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await commit(broker, topic_id, 7)
    await delete_offsets(broker, topic_id)
    first, second = await records(broker)
    assert (first.offset, first.key) == (0, ("readers", "a", 0))
    assert first.commit is not None
    assert first.commit == (7, -1, "so far", first.timestamp, topic_id)
    assert second == (1, -1, ("readers", "a", 0), None)
    assert await records(broker, 1) == [second]
    response = await fetch(broker, 2)
    assert (response.record_batches, response.log_start_offset, response.high_watermark) == (b"", 0, 2)


async def test_other_records_are_gaps(broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    before = (await fetch(broker, 0)).high_watermark
    assert before > 0
    await commit(broker, topic_id, 1)
    await broker.beat("m", -1)
    response = await fetch(broker, 0)
    assert [one.offset for one in read_batches(response.record_batches)] == [before]
    header = header_of(response.record_batches)
    assert (header.base_offset, header.last_offset) == (0, response.high_watermark - 1)
    behind = header_of((await fetch(broker, before + 1)).record_batches)
    assert (behind.base_offset, behind.record_count) == (before + 1, 0)
    assert behind.last_offset == response.high_watermark - 1


async def test_response_ends_before_an_oversized_record(broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    for offset in range(5):
        await commit(broker, topic_id, offset)
    assert [one.offset for one in await records(broker, 1, 0)] == [1]
    assert [one.offset for one in await records(broker, 1)] == [1, 2, 3, 4]


async def test_offsets_are_found_by_timestamp(broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    await commit(broker, topic_id, 1)
    await delete_offsets(broker, topic_id)
    first, _ = await records(broker)
    assert await find(broker, first.timestamp) == (first.offset, first.timestamp)
    assert await find(broker, first.timestamp + 60_000) == (-1, -1)
    assert await find(broker, -3) == (first.offset, first.timestamp)
    assert (await find(broker, -2), await find(broker, -1)) == ((0, -1), (first.offset + 2, -1))
    with pytest.raises(KafkaError) as rejected:
        await find(broker, -1, shard=1)
    assert rejected.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_deleted_topic_has_no_commits(broker: Broker) -> None:
    """Another topic may have its name by now: a replay of the shown records has the offsets of that one."""
    gone = await broker.create("a", 1)
    await commit(broker, gone, 7)
    await broker.delete("a")
    assert await records(broker) == []
    again = await broker.create("a", 1)
    await commit(broker, again, 3)
    await delete_offsets(broker, gone)
    (only,) = await records(broker)
    assert only.commit is not None
    assert (only.offset, only.commit.offset, only.commit.topic_id) == (1, 3, again)


async def test_topic_missing_from_the_cache_is_retriable(broker: Broker) -> None:
    unheard = "AQIDBAUGBwgJCgsMDQ4PEA"
    await commit(broker, unheard, 7)
    with pytest.raises(KafkaError) as rejected:
        await fetch(broker, 0)
    assert rejected.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_unknown_topic_counts_as_deleted(cluster: Cluster, broker: Broker) -> None:
    await commit(broker, "AQIDBAUGBwgJCgsMDQ4PEA", 7)
    broker.groups._offsets_topic._clock = lambda: 1e12
    assert await records(broker) == []


@pytest.mark.parametrize("commits", [True, False])
async def test_offsets_of_a_transaction_are_shown_when_it_is_committed(broker: Broker, commits: bool) -> None:
    topic_id = await broker.create("a", 1)
    request = consumers_pb.TxnOffsetCommitRequest(
        transactional_id="x", producer_id=7, producer_epoch=3, transaction_version=2
    )
    request.commit.group_id, request.commit.generation_id = "readers", -1
    request.commit.partitions.add(topic_id=topic_id, partition=0, committed_offset=5)
    await broker.until(lambda: broker.groups.TxnOffsetCommit(request, CONTEXT))
    assert await records(broker) == []
    end = consumers_pb.CompleteTransactionRequest(
        shard=0, producer_id=7, producer_epoch=4, transaction_result=commits, coordinator_epoch=7
    )
    await broker.groups.CompleteTransaction(end, CONTEXT)
    assert [one.commit.offset for one in await records(broker) if one.commit] == [5] * commits


async def test_internal_topics_have_names_too(broker: Broker) -> None:
    await commit(broker, "L0q_9xXBWcW1PYDWSy-nXw", 7)
    assert [one.key for one in await records(broker)] == [("readers", "__share_group_state", 0)]


async def test_offsets_are_the_same_at_the_next_owner(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await commit(broker, topic_id, 1)
    await broker.beat("m", 0, "a", group="g")
    await commit(broker, topic_id, 2)
    before = await records(broker)
    await broker.stop()
    cluster.processes.remove(broker)
    other = await cluster.start(2, ONE_SHARD)
    await other.until(lambda: other.groups.ShareGroupDescribe(pb.ShareGroupDescribeRequest(), CONTEXT))
    assert await other.until(lambda: records(other)) == before
    assert len(before) == 2
