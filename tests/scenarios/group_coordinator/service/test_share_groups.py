"""The RPCs of share groups: heartbeats, offsets, and deletion."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.persister.port import StateSummary
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually


def parts(response: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in response.assignment.topic_partitions}


async def test_first_response_of_a_new_group_has_partitions(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 3)
    response = await broker.beat("m", 0, "a")
    assert parts(response) == {topic_id: [0, 1, 2]}
    assert response.heartbeat_interval_ms == 5000
    assert cluster.states.states == {
        SharePartitionKey("g", topic_id, partition): StateSummary(2, 0, -1, -1) for partition in range(3)
    }


async def test_members_that_join_together_all_get_partitions_at_once(broker: Broker) -> None:
    topic_id = await broker.create("a", 8)
    responses = await asyncio.gather(*(broker.beat(f"m{n}", 0, "a") for n in range(8)))
    assert all(parts(response) for response in responses)
    again = [await broker.beat(f"m{n}", response.member_epoch) for n, response in enumerate(responses)]
    held = [
        parts(now).get(topic_id, parts(before)[topic_id])
        for before, now in zip(responses, again, strict=True)
    ]
    assert sorted(partition for some in held for partition in some) == list(range(8))


async def test_unchanged_heartbeat_has_no_assignment(broker: Broker) -> None:
    await broker.create("a", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    response = await broker.beat("m", epoch)
    assert response.member_epoch == epoch
    assert not response.HasField("assignment")


async def test_unchanged_heartbeat_is_served_without_waiting(cluster: Cluster, broker: Broker) -> None:
    await broker.create("a", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    await broker.beat("m", epoch)
    assert broker.groups.stays("g", "m", epoch)
    assert not broker.groups.stays("g", "m", epoch + 1)
    assert not (await cluster.start(2)).groups.stays("g", "m", epoch)


async def test_unchanged_heartbeat_is_rejected_while_records_are_pending(
    cluster: Cluster, broker: Broker
) -> None:
    await broker.create("a", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    await broker.beat("m", epoch)
    (other,) = [f"h{some}" for some in range(500) if shard_of(f"h{some}", 50) == shard_of("g", 50)][:1]
    cluster.log.hold()
    joining = asyncio.create_task(broker.beat("n", 0, "a", group=other))
    shard = broker.host.shard(shard_of("g", 50))
    await eventually(lambda: shard._pending.applied > shard._pending.durable)
    assert not broker.groups.stays("g", "m", epoch)
    cluster.log.release()
    await joining
    await eventually(lambda: broker.groups.stays("g", "m", epoch))


async def test_new_topic_of_a_member_is_in_the_same_response(broker: Broker) -> None:
    a, b = await broker.create("a", 1), await broker.create("b", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    assert parts(await broker.beat("m", epoch, "a", "b")) == {a: [0], b: [0]}


async def test_dropped_topic_is_removed_before_the_new_one_is_ready(cluster: Cluster) -> None:
    broker = await cluster.start(1, initialize_wait=0.01)
    await broker.create("a", 1)
    b = await broker.create("b", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    cluster.states.open.clear()
    response = await broker.beat("m", epoch, "b")
    assert response.HasField("assignment")
    assert parts(response) == {}
    cluster.states.open.set()
    await eventually(lambda: len(cluster.states.states) == 2)
    assert parts(await broker.beat("m", response.member_epoch)) == {b: [0]}


async def test_heartbeat_waits_a_limited_time_for_state(cluster: Cluster) -> None:
    broker = await cluster.start(1, initialize_wait=0.01)
    topic_id = await broker.create("a", 1)
    cluster.states.open.clear()
    response = await broker.beat("m", 0, "a")
    assert response.HasField("assignment")
    assert parts(response) == {}
    cluster.states.open.set()
    await eventually(lambda: bool(cluster.states.states))
    assert parts(await broker.beat("m", response.member_epoch)) == {topic_id: [0]}


async def test_cancelled_caller_leaves_a_working_group(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.until(lambda: broker.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    cluster.log.hold()
    call = asyncio.create_task(broker.beat("m", 0, "a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait({call})
    cluster.log.release()
    await eventually(lambda: bool(cluster.states.states))
    assert parts(await broker.beat("m", 0, "a")) == {topic_id: [0]}


async def test_heartbeat_whose_record_was_not_written_has_no_effect(cluster: Cluster, broker: Broker) -> None:
    await broker.create("a", 1)
    await broker.until(lambda: broker.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    cluster.log.fail_next_append(Fault.NOT_WRITTEN)
    request = pb.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", subscribed_topic_names=pb.TopicNames(names=["a"])
    )
    with pytest.raises(KafkaError) as caught:
        await broker.groups.ShareGroupHeartbeat(request, CONTEXT)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert caught.value.retriable
    listed = await broker.until(lambda: broker.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    assert list(listed.groups) == []
    assert parts(await broker.beat("m", 0, "a"))


SHORT_SESSIONS = (
    "group.share.min.session.timeout.ms=1",
    "group.share.session.timeout.ms=50",
    "group.share.min.heartbeat.interval.ms=1",
    "group.share.heartbeat.interval.ms=10",
)


async def test_records_of_fenced_and_leaving_members_are_released(cluster: Cluster) -> None:
    broker = await cluster.start(1, *SHORT_SESSIONS)
    await broker.create("a", 1)
    await broker.beat("leaves", 0, "a")
    assert (await broker.beat("leaves", -1)).member_epoch == -1
    assert broker.departed == [("g", "leaves")]
    await broker.beat("silent", 0, "a")
    await eventually(lambda: ("g", "silent") in broker.departed)
    with pytest.raises(KafkaError) as caught:
        await broker.beat("silent", 1)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_fenced_member_is_released_only_after_the_append(cluster: Cluster) -> None:
    """No other member may receive its records while the group may still contain it."""
    broker = await cluster.start(1, *SHORT_SESSIONS)
    await broker.create("a", 1)
    await broker.beat("silent", 0, "a")
    cluster.log.hold()
    shard = broker.host.shard(shard_of("g", 50))
    await eventually(lambda: shard._pending.applied > shard._pending.durable)  # it was decided
    await asyncio.sleep(0.05)
    assert broker.departed == []
    cluster.log.fail_next_append(Fault.NOT_WRITTEN)
    cluster.log.release()
    await eventually(lambda: broker.departed == [("g", "silent")])  # decided again, after another session


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


async def alter(broker: Broker, *offsets: tuple[str, int, int]) -> pb.AlterShareGroupOffsetsResponse:
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    for name, partition, offset in offsets:
        request.topics.add(topic_name=name).partitions.add(partition=partition, start_offset=offset)
    return await broker.until(lambda: broker.groups.AlterShareGroupOffsets(request, CONTEXT))


async def delete_groups(broker: Broker, *groups: str) -> list[int]:
    response = await broker.groups.DeleteGroups(pb.DeleteGroupsRequest(group_ids=groups), CONTEXT)
    return [result.error_code for result in response.results]


async def test_altered_offsets_are_initialised_at_a_higher_epoch(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    response = await alter(broker, ("a", 0, 40), ("a", 9, 1), ("zzz", 0, 1))
    assert [
        (topic.topic_name, topic.topic_id, [some.error_code for some in topic.partitions])
        for topic in response.responses
    ] == [
        ("a", topic_id, [0]),
        ("a", topic_id, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("zzz", "", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    assert cluster.states.states == {SharePartitionKey("g", topic_id, 0): StateSummary(2, 0, 40, 0)}
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
    response = await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)
    assert [(some.topic_name, some.error_code) for some in response.responses] == [
        ("a", 0),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert response.responses[0].topic_id == topic_id
    assert cluster.states.states == {}
    assert await offsets(broker) == []
    nothing = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["b"])
    (rejected,) = (await broker.groups.DeleteShareGroupOffsets(nothing, CONTEXT)).responses
    assert rejected.error_message == "There is no offset information to delete."


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
    response = await alter(broker, ("zzz", 0, 1))
    assert [code(some) for topic in response.responses for some in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert cluster.states.calls == []
