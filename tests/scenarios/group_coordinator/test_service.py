"""Groups through the RPCs: first answers with partitions, fail-over, fencing, administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.persister.port import StateSummary
from sharebroker_server.stream_log.memory import Fault
from sharebroker_server.testkit.waiting import eventually
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.close()


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1)


def parts(answer: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in answer.assignment.topic_partitions}


async def holds(broker: Broker, epoch: int, expected: dict[str, list[int]]) -> bool:
    """Whether a member of this epoch, or one told of a later one, has these partitions."""
    await broker.beat("m", epoch)
    (member,) = (await described(broker)).members
    return {some.topic_id: list(some.partitions) for some in member.assignment.topic_partitions} == expected


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


async def test_first_response_of_a_new_group_has_partitions(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 3)
    answer = await broker.beat("m", 0, "a")
    assert parts(answer) == {topic_id: [0, 1, 2]}
    assert answer.heartbeat_interval_ms == 5000
    assert cluster.states.states == {
        SharePartitionKey("g", topic_id, partition): StateSummary(1, 0, -1, -1) for partition in range(3)
    }


async def test_members_that_join_together_all_get_partitions_at_once(broker: Broker) -> None:
    topic_id = await broker.create("a", 8)
    answers = await asyncio.gather(*(broker.beat(f"m{n}", 0, "a") for n in range(8)))
    assert all(parts(answer) for answer in answers)
    again = [await broker.beat(f"m{n}", answer.member_epoch) for n, answer in enumerate(answers)]
    held = [
        parts(now).get(topic_id, parts(before)[topic_id]) for before, now in zip(answers, again, strict=True)
    ]
    assert sorted(partition for some in held for partition in some) == list(range(8))


async def test_unchanged_heartbeat_has_no_assignment(broker: Broker) -> None:
    await broker.create("a", 1)
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    answer = await broker.beat("m", epoch)
    assert answer.member_epoch == epoch
    assert not answer.HasField("assignment")


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
    answer = await broker.beat("m", epoch, "b")
    assert answer.HasField("assignment")
    assert parts(answer) == {}
    cluster.states.open.set()
    await eventually(lambda: len(cluster.states.states) == 2)
    assert parts(await broker.beat("m", answer.member_epoch)) == {b: [0]}


async def test_heartbeat_waits_a_limited_time_for_state(cluster: Cluster) -> None:
    broker = await cluster.start(1, initialize_wait=0.01)
    topic_id = await broker.create("a", 1)
    cluster.states.open.clear()
    answer = await broker.beat("m", 0, "a")
    assert answer.HasField("assignment")
    assert parts(answer) == {}
    cluster.states.open.set()
    await eventually(lambda: bool(cluster.states.states))
    assert parts(await broker.beat("m", answer.member_epoch)) == {topic_id: [0]}


async def test_failed_initialisation_is_repeated_with_the_next_heartbeat(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 2)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    with capture_logs() as logs:
        answer = await broker.beat("m", 0, "a")
    assert parts(answer) == {topic_id: [0]}
    assert "share state not initialised" in [entry["event"] for entry in logs]
    cluster.states.refuse.clear()
    # An attempt that was begun before may have to fail first.
    await eventually(lambda: holds(broker, answer.member_epoch, {topic_id: [0, 1]}))


async def test_initialisation_that_takes_too_long_counts_as_failed(cluster: Cluster) -> None:
    broker = await cluster.start(1, state_timeout=0.01)
    await broker.create("a", 1)
    cluster.states.open.clear()
    answer = await broker.beat("m", 0, "a")
    assert parts(answer) == {}
    cluster.states.open.set()
    assert parts(await broker.beat("m", answer.member_epoch))


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


async def test_next_owner_has_members_and_assignments(cluster: Cluster) -> None:
    first = await cluster.start(1)
    topic_id = await first.create("a", 2)
    epoch = (await first.beat("m", 0, "a")).member_epoch
    second = await cluster.start(2)
    await first.stop()
    answer = await second.beat("m", epoch)
    assert answer.member_epoch == epoch
    assert not answer.HasField("assignment")
    assert parts(await second.beat("m", 0, "a")) == {topic_id: [0, 1]}


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
    """Its records must not go to others while the group may still have it."""
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


async def test_describe_names_topics_and_leaves_out_deleted_ones(broker: Broker) -> None:
    a = await broker.create("a", 1)
    b = await broker.create("b", 1)
    epoch = (await broker.beat("m", 0, "a", "b")).member_epoch
    group = await described(broker)
    assert (group.group_state, group.assignor_name, group.group_epoch, group.assignment_epoch) == (
        "Stable",
        "simple",
        epoch,
        epoch,
    )
    assert group.authorized_operations == -(1 << 31)
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host, list(member.subscribed_topic_names)) == (
        "m",
        "c",
        "h",
        ["a", "b"],
    )
    assert not member.HasField("rack_id")
    named = {some.topic_name: some.topic_id for some in member.assignment.topic_partitions}
    assert named == {"a": a, "b": b}
    await broker.delete("a")
    (member,) = (await described(broker)).members
    assert [some.topic_name for some in member.assignment.topic_partitions] == ["b"]


async def test_describe_of_an_unknown_group(broker: Broker) -> None:
    await broker.create("a", 1)
    await broker.beat("m", 0, "a", group="x")
    group = await described(broker, "x")
    assert group.error_code == 0
    missing = await broker.until(lambda: described_now(broker, "g"))
    assert (code(missing), missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "")
    nameless = await broker.until(lambda: described_now(broker, ""))
    assert (code(nameless), nameless.group_state) == (ErrorCode.INVALID_GROUP_ID, "")


async def described_now(broker: Broker, group: str) -> pb.ShareGroupDescribeResponse.DescribedGroup:
    found = await described(broker, group)
    if code(found) in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        raise KafkaError(code(found))
    return found


async def test_groups_are_listed_over_all_shards(broker: Broker) -> None:
    await broker.create("a", 1)
    for group in ("g1", "g2", "g3"):
        await broker.beat("m", 0, "a", group=group)
    await broker.beat("m", -1, group="g2")

    async def listed(**filters: list[str]) -> dict[str, str]:
        answer = await broker.groups.ListGroups(pb.ListGroupsRequest(**filters), CONTEXT)
        assert all((some.group_type, some.protocol_type) == ("share", "share") for some in answer.groups)
        return {some.group_id: some.group_state for some in answer.groups}

    assert await listed() == {"g1": "Stable", "g2": "Empty", "g3": "Stable"}
    assert await listed(states_filter=["EMPTY"], types_filter=["Share"]) == {"g2": "Empty"}
    assert await listed(types_filter=["Classic"]) == {}


async def test_lag_counts_what_is_not_finished(cluster: Cluster, broker: Broker) -> None:
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
    assert await offsets(broker, "nobody") == []
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


async def test_failure_of_an_alter_at_the_share_coordinator_is_returned(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "stale"
    )
    (topic,) = (await alter(broker, ("a", 0, 40))).responses
    assert [(code(some), some.error_message) for some in topic.partitions] == [
        (ErrorCode.FENCED_STATE_EPOCH, "stale")
    ]
    cluster.states.refuse.clear()
    (topic,) = (await alter(broker, ("a", 0, 41))).responses
    assert not topic.partitions[0].error_code


async def test_log_lists_only_partitions_that_were_changed(cluster: Cluster, broker: Broker) -> None:
    """Some was refused, some failed."""
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


async def test_failure_of_a_deletion_at_the_share_coordinator_is_returned(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 2)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a"])
    (refused,) = (await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert code(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.states.refuse.clear()
    (done,) = (await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert not done.error_code
    assert cluster.states.states == {}


async def test_groups_are_deleted_each_with_its_result(cluster: Cluster, broker: Broker) -> None:
    await broker.create("a", 2)
    for group in ("empty", "busy"):
        await broker.beat("m", 0, "a", group=group)
    await broker.beat("m", -1, group="empty")
    assert await delete_groups(broker, "empty", "busy", "nobody") == [
        0,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert {key.group_id for key in cluster.states.states} == {"busy"}


async def test_group_without_state_is_deleted_too(broker: Broker) -> None:
    await broker.beat("m", 0, "not there")
    await broker.beat("m", -1)
    assert await delete_groups(broker, "g") == [0]


async def test_group_stays_when_its_state_could_not_be_deleted(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await delete_groups(broker, "g") == [ErrorCode.KAFKA_STORAGE_ERROR]
    cluster.states.refuse.clear()
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


async def test_unrecorded_initialisation_is_repeated_by_the_next_owner(
    cluster: Cluster,
) -> None:
    first = await cluster.start(1, initialize_wait=0.01)
    topic_id = await first.create("a", 1)
    cluster.states.open.clear()
    epoch = (await first.beat("m", 0, "a")).member_epoch
    await first.host.stop()
    with capture_logs() as logs:
        cluster.states.open.set()
        await eventually(lambda: "initialised share state not recorded" in [entry["event"] for entry in logs])
    second = await cluster.start(2)
    await first.stop()
    assert parts(await second.beat("m", epoch)) == {topic_id: [0]}
    assert cluster.states.states[SharePartitionKey("g", topic_id, 0)].state_epoch == 2


async def test_close_cancels_background_work(cluster: Cluster) -> None:
    broker = await cluster.start(1, initialize_wait=0.01)
    await broker.create("a", 1)
    cluster.states.open.clear()
    await broker.beat("m", 0, "a")
    await broker.groups.close()
    await broker.stop()
    assert cluster.states.states == {}


async def test_alter_without_offsets_notifies_no_leader(cluster: Cluster, broker: Broker) -> None:
    answer = await alter(broker, ("zzz", 0, 1))
    assert [code(some) for topic in answer.responses for some in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert cluster.states.calls == []
