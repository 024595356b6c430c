"""Changes of share groups without members through the RPCs."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.persister.port import StateSummary
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code
from tests.testkit.waiting import eventually


def parts(answer: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in answer.assignment.topic_partitions}


async def offsets(broker: Broker, group: str = "g") -> list[pb.DescribeShareGroupOffsetsResponse.Topic]:
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id=group, all_topics=True)
    answer = await broker.until(lambda: broker.groups.DescribeShareGroupOffsets(request, CONTEXT))
    (described,) = answer.groups
    assert not described.error_code
    return list(described.topics)


async def described(broker: Broker, group: str = "g") -> pb.ShareGroupDescribeResponse.DescribedGroup:
    request = pb.ShareGroupDescribeRequest(group_ids=[group])
    (found,) = (await broker.groups.ShareGroupDescribe(request, CONTEXT)).groups
    return found


async def alter(broker: Broker, *offsets: tuple[str, int, int]) -> pb.AlterShareGroupOffsetsResponse:
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    for name, partition, offset in offsets:
        request.topics.add(topic_name=name).partitions.add(partition=partition, start_offset=offset)
    return await broker.until(lambda: broker.groups.AlterShareGroupOffsets(request, CONTEXT))


async def delete_groups(broker: Broker, *groups: str) -> list[int]:
    answer = await broker.groups.DeleteGroups(pb.DeleteGroupsRequest(group_ids=groups), CONTEXT)
    return [result.error_code for result in answer.results]


async def test_altered_offsets_are_initialised_at_a_higher_epoch(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    answer = await alter(broker, ("a", 0, 40), ("a", 9, 1), ("zzz", 0, 1))
    assert [
        (topic.topic_name, topic.topic_id, [some.error_code for some in topic.partitions])
        for topic in answer.responses
    ] == [
        ("a", topic_id, [0]),
        ("a", topic_id, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("zzz", "", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    assert cluster.states.states == {SharePartitionKey("g", topic_id, 0): StateSummary(1, 0, 40, 0)}
    cluster.ends.ends[TopicIdPartition(topic_id, 0)] = 105
    (topic,) = await offsets(broker)
    assert [(some.start_offset, some.lag) for some in topic.partitions] == [(40, 65)]


async def test_log_lists_only_partitions_that_were_changed(cluster: Cluster, broker: Broker) -> None:
    """Some partitions were rejected, some failed."""
    topic_id = await broker.create("a", 2)
    await broker.create("b", 1)
    await broker.create("c", 1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "stale"
    )
    deletion = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a", "b", "c"])
    with capture_logs() as logs:
        await alter(broker, ("a", 0, 40), ("zzz", 0, 1))
        await alter(broker, ("a", 0, 40), ("a", 1, 40), ("b", 0, 40))
        await broker.groups.DeleteShareGroupOffsets(deletion, CONTEXT)
    altered, deleted = [line for line in logs if "share group offsets" in line["event"]]
    assert (altered["event"], altered["partitions"]) == ("share group offsets altered", 2)
    assert (deleted["event"], deleted["topics"]) == ("share group offsets deleted", ["b"])


async def test_alter_of_a_group_with_members_is_rejected(broker: Broker) -> None:
    await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    with pytest.raises(KafkaError) as caught:
        await alter(broker, ("a", 0, 40))
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


async def test_deleted_offsets_start_by_policy(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    await broker.create("b", 1)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a", "b", "zzz", "a"])
    answer = await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)
    assert [(some.topic_name, some.error_code) for some in answer.responses] == [
        ("a", 0),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert answer.responses[0].topic_id == topic_id
    assert cluster.states.states == {}
    assert await offsets(broker) == []
    nothing = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["b"])
    (refused,) = (await broker.groups.DeleteShareGroupOffsets(nothing, CONTEXT)).responses
    assert refused.error_message == "There is no offset information to delete."


async def test_groups_are_deleted_each_with_its_result(cluster: Cluster, broker: Broker) -> None:
    await broker.create("a", 2)
    for group in ("empty", "busy"):
        await broker.beat("m", 0, "a", group=group)
    await broker.beat("m", -1, group="empty")
    assert await delete_groups(broker, "empty", "busy", "absent") == [
        0,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert {key.group_id for key in cluster.states.states} == {"busy"}


async def test_group_without_state_is_deleted_too(broker: Broker) -> None:
    await broker.beat("m", 0, "not there")
    await broker.beat("m", -1)
    assert await delete_groups(broker, "g") == [0]


async def test_group_with_a_member_joining_during_deletion_is_kept(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    cluster.states.open.clear()
    deletion = asyncio.create_task(delete_groups(broker, "g"))
    await eventually(lambda: ("delete", SharePartitionKey("g", topic_id, 0)) in cluster.states.calls)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    cluster.states.open.set()
    assert await deletion == [ErrorCode.NON_EMPTY_GROUP]
    assert parts(await broker.beat("m", epoch)) == {topic_id: [0]}


async def test_alter_without_offsets_notifies_no_leader(cluster: Cluster, broker: Broker) -> None:
    answer = await alter(broker, ("zzz", 0, 1))
    assert [code(some) for topic in answer.responses for some in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert cluster.states.calls == []
