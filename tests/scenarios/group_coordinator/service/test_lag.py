"""Start offsets and lag of share groups through the RPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.persister.port import StateSummary
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code


async def offsets(broker: Broker, group: str = "g") -> list[pb.DescribeShareGroupOffsetsResponse.Topic]:
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id=group, all_topics=True)
    response = await broker.until(lambda: broker.groups.DescribeShareGroupOffsets(request, CONTEXT))
    (described,) = response.groups
    assert not described.error_code
    return list(described.topics)


async def described(broker: Broker, group: str = "g") -> pb.ShareGroupDescribeResponse.DescribedGroup:
    request = pb.ShareGroupDescribeRequest(group_ids=[group])
    (found,) = (await broker.groups.ShareGroupDescribe(request, CONTEXT)).groups
    return found


async def test_lag_counts_unfinished_records(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 3)
    await broker.beat("m", 0, "a")
    key = SharePartitionKey("g", topic_id, 0)
    cluster.states.states[key] = StateSummary(1, 7, 40, 5)
    cluster.ends.ends[TopicIdPartition(topic_id, 0)] = 105
    cluster.states.states[SharePartitionKey("g", topic_id, 1)] = StateSummary(1, 0, 40, -1)
    (topic,) = await offsets(broker)
    assert (topic.topic_name, topic.topic_id) == ("a", topic_id)
    assert [(some.start_offset, some.lag, some.leader_epoch) for some in topic.partitions] == [
        (40, 60, 7),
        (40, -1, 0),
        (-1, -1, 0),
    ]


@pytest.mark.parametrize(
    ("waiting", "scheduled", "locked", "archiving", "expected"),
    [
        pytest.param(0, 0, 0, 0, (60, 0, 0, 0), id="ready"),
        pytest.param(20, 0, 0, 0, (40, 0, 20, 0), id="waiting"),
        pytest.param(0, 30, 0, 0, (30, 0, 30, 0), id="scheduled"),
        pytest.param(0, 0, 0, 7, (53, 0, 0, 7), id="archiving"),
        pytest.param(12, 8, 15, 5, (20, 15, 20, 5), id="all states"),
        pytest.param(50, 0, 15, 0, (0, 10, 50, 0), id="a record that was due is locked"),
        pytest.param(50, 49, 9, 1, (0, 0, 59, 1), id="records deleted meanwhile"),
        pytest.param(1, 1, 1, 70, (0, 0, 0, 60), id="archived meanwhile"),
    ],
)
async def test_lag_consists_of_records_by_state(
    cluster: Cluster,
    broker: Broker,
    waiting: int,
    scheduled: int,
    locked: int,
    archiving: int,
    expected: tuple[int, int, int, int],
) -> None:
    topic_id = await broker.create("a", 2)
    await broker.beat("m", 0, "a")
    place = TopicIdPartition(topic_id, 0)
    cluster.states.states[SharePartitionKey("g", *place)] = StateSummary(
        1, 7, 40, 5, waiting_count=waiting, archiving_count=archiving
    )
    cluster.ends.ends[place] = 105
    cluster.ends.locked["g", place] = locked
    cluster.ends.locked["other", place] = 7
    cluster.ends.scheduled[place] = scheduled
    (topic,) = await offsets(broker)
    known, unknown = topic.partitions
    assert known.lag == 60
    assert (known.ready, known.locked, known.waiting, known.archiving) == expected
    assert not any(unknown.HasField(name) for name in ("ready", "locked", "waiting", "archiving"))


async def test_partition_without_lag_has_an_error(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    await broker.beat("m", 0, "a")
    cluster.states.states[SharePartitionKey("g", topic_id, 0)] = StateSummary(1, 0, 40, 0)
    cluster.ends.ends[TopicIdPartition(topic_id, 0)] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    (topic,) = await offsets(broker)
    assert [(code(some), some.start_offset, some.lag) for some in topic.partitions] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1),
    ]


async def test_offsets_of_unknown_partitions_are_unknown_without_error(broker: Broker) -> None:
    await broker.create("a", 2)
    await broker.create("b", 1)
    await broker.beat("m", 0, "a")
    assert await offsets(broker, "absent") == []
    request = pb.DescribeShareGroupOffsetsRequest()
    group = request.groups.add(group_id="g")
    group.topics.add(topic_name="b", partitions=[0])
    group.topics.add(topic_name="zzz", partitions=[4])
    group.topics.add(topic_name="a", partitions=[9])
    request.groups.add(group_id="g")
    full, empty = (await broker.groups.DescribeShareGroupOffsets(request, CONTEXT)).groups
    assert [
        (topic.topic_name, some.partition, some.start_offset, some.lag, some.error_code)
        for topic in full.topics
        for some in topic.partitions
    ] == [("a", 9, -1, -1, 0), ("b", 0, -1, -1, 0), ("zzz", 4, -1, -1, 0)]
    assert list(empty.topics) == []


async def test_offsets_of_a_group_owned_elsewhere_are_rejected_in_band(cluster: Cluster) -> None:
    broker = await cluster.start(1)
    await broker.host.stop()
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id="g", all_topics=True)
    (group,) = (await broker.groups.DescribeShareGroupOffsets(request, CONTEXT)).groups
    assert code(group) is ErrorCode.NOT_COORDINATOR


async def test_many_partitions_are_described_in_portions(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    await broker.beat("m", 0, "a")
    cluster.states.states[SharePartitionKey("g", topic_id, 1)] = StateSummary(1, 7, 40, 5)
    cluster.ends.ends[TopicIdPartition(topic_id, 1)] = 105
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id="g").topics.add(topic_name="a", partitions=[1, 2] * 1_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    await offsets(broker)
    task = asyncio.create_task(others())
    ((topic,),) = ([*group.topics] for group in await _groups(broker, request))
    task.cancel()
    assert [(some.partition, some.start_offset, some.lag) for some in topic.partitions] == [
        (1, 40, 60),
        (2, -1, -1),
    ] * 1_000
    assert turns >= 4


async def _groups(
    broker: Broker, request: pb.DescribeShareGroupOffsetsRequest
) -> Sequence[pb.DescribeShareGroupOffsetsResponse.Group]:
    return (await broker.groups.DescribeShareGroupOffsets(request, CONTEXT)).groups
