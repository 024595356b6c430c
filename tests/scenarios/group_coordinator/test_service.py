"""Groups through the RPCs: first answers with partitions, fail-over, fencing, administration."""

from __future__ import annotations

import asyncio
import logging
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
from tests.scenarios.group_coordinator.process import CONTEXT, Process, World, code


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


@pytest.fixture
async def process(world: World) -> Process:
    return await world.start(1)


def parts(answer: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in answer.assignment.topic_partitions}


async def holds(process: Process, epoch: int, expected: dict[str, list[int]]) -> bool:
    """Whether a member of this epoch, or one told of a later one, has these partitions."""
    await process.beat("m", epoch)
    (member,) = (await described(process)).members
    return {some.topic_id: list(some.partitions) for some in member.assignment.topic_partitions} == expected


async def offsets(process: Process, group: str = "g") -> list[pb.DescribeShareGroupOffsetsResponse.Topic]:
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id=group, all_topics=True)
    answer = await process.until(lambda: process.groups.DescribeShareGroupOffsets(request, CONTEXT))
    (described,) = answer.groups
    assert not described.error_code
    return list(described.topics)


async def described(process: Process, group: str = "g") -> pb.ShareGroupDescribeResponse.DescribedGroup:
    request = pb.ShareGroupDescribeRequest(group_ids=[group])
    (found,) = (await process.groups.ShareGroupDescribe(request, CONTEXT)).groups
    return found


async def alter(process: Process, *offsets: tuple[str, int, int]) -> pb.AlterShareGroupOffsetsResponse:
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    for name, partition, offset in offsets:
        request.topics.add(topic_name=name).partitions.add(partition=partition, start_offset=offset)
    return await process.until(lambda: process.groups.AlterShareGroupOffsets(request, CONTEXT))


async def delete_groups(process: Process, *groups: str) -> list[int]:
    answer = await process.groups.DeleteGroups(pb.DeleteGroupsRequest(group_ids=groups), CONTEXT)
    return [result.error_code for result in answer.results]


async def test_new_group_has_its_partitions_with_the_first_answer(world: World, process: Process) -> None:
    topic_id = await process.create("a", 3)
    answer = await process.beat("m", 0, "a")
    assert parts(answer) == {topic_id: [0, 1, 2]}
    assert answer.heartbeat_interval_ms == 5000
    assert world.states.states == {
        SharePartitionKey("g", topic_id, partition): StateSummary(1, 0, -1, -1) for partition in range(3)
    }


async def test_members_that_join_together_all_get_partitions_at_once(process: Process) -> None:
    topic_id = await process.create("a", 8)
    answers = await asyncio.gather(*(process.beat(f"m{n}", 0, "a") for n in range(8)))
    assert all(parts(answer) for answer in answers)
    again = [await process.beat(f"m{n}", answer.member_epoch) for n, answer in enumerate(answers)]
    held = [
        parts(now).get(topic_id, parts(before)[topic_id]) for before, now in zip(answers, again, strict=True)
    ]
    assert sorted(partition for some in held for partition in some) == list(range(8))


async def test_steady_heartbeat_has_no_assignment(process: Process) -> None:
    await process.create("a", 1)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    answer = await process.beat("m", epoch)
    assert answer.member_epoch == epoch
    assert not answer.HasField("assignment")


async def test_a_member_that_stays_is_known_at_once(world: World, process: Process) -> None:
    await process.create("a", 1)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    await process.beat("m", epoch)
    assert process.groups.stays("g", "m", epoch)
    assert not process.groups.stays("g", "m", epoch + 1)
    assert not (await world.start(2)).groups.stays("g", "m", epoch)


async def test_nobody_stays_while_it_is_not_durable_what_that_rests_on(
    world: World, process: Process
) -> None:
    await process.create("a", 1)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    await process.beat("m", epoch)
    (other,) = [f"h{some}" for some in range(500) if shard_of(f"h{some}", 50) == shard_of("g", 50)][:1]
    world.log.hold()
    joining = asyncio.create_task(process.beat("n", 0, "a", group=other))
    shard = process.host.shard(shard_of("g", 50))
    await eventually(lambda: shard._pending.applied > shard._pending.durable)
    assert not process.groups.stays("g", "m", epoch)
    world.log.release()
    await joining
    await eventually(lambda: process.groups.stays("g", "m", epoch))


async def test_new_topic_of_a_member_comes_with_the_same_answer(process: Process) -> None:
    a, b = await process.create("a", 1), await process.create("b", 1)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    assert parts(await process.beat("m", epoch, "a", "b")) == {a: [0], b: [0]}


async def test_dropped_topic_is_gone_though_nothing_came_for_the_new_one(world: World) -> None:
    process = await world.start(1, initialize_wait=0.01)
    await process.create("a", 1)
    b = await process.create("b", 1)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    world.states.open.clear()
    answer = await process.beat("m", epoch, "b")
    assert answer.HasField("assignment")
    assert parts(answer) == {}
    world.states.open.set()
    await eventually(lambda: len(world.states.states) == 2)
    assert parts(await process.beat("m", answer.member_epoch)) == {b: [0]}


async def test_answer_does_not_wait_for_ever(world: World) -> None:
    process = await world.start(1, initialize_wait=0.01)
    topic_id = await process.create("a", 1)
    world.states.open.clear()
    answer = await process.beat("m", 0, "a")
    assert answer.HasField("assignment")
    assert parts(answer) == {}
    world.states.open.set()
    await eventually(lambda: bool(world.states.states))
    assert parts(await process.beat("m", answer.member_epoch)) == {topic_id: [0]}


async def test_failed_initialisation_is_tried_again_with_the_next_heartbeat(
    world: World, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = await process.create("a", 2)
    world.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with caplog.at_level(logging.WARNING):
        answer = await process.beat("m", 0, "a")
    assert parts(answer) == {topic_id: [0]}
    assert "no state yet" in caplog.text
    world.states.refuse.clear()
    # An attempt that was begun before may have to fail first.
    await eventually(lambda: holds(process, answer.member_epoch, {topic_id: [0, 1]}))


async def test_initialisation_that_takes_too_long_counts_as_failed(world: World) -> None:
    process = await world.start(1, state_timeout=0.01)
    await process.create("a", 1)
    world.states.open.clear()
    answer = await process.beat("m", 0, "a")
    assert parts(answer) == {}
    world.states.open.set()
    assert parts(await process.beat("m", answer.member_epoch))


async def test_caller_that_goes_away_leaves_a_working_group(world: World, process: Process) -> None:
    topic_id = await process.create("a", 1)
    await process.until(lambda: process.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    world.log.hold()
    call = asyncio.create_task(process.beat("m", 0, "a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait({call})
    world.log.release()
    await eventually(lambda: bool(world.states.states))
    assert parts(await process.beat("m", 0, "a")) == {topic_id: [0]}


async def test_next_coordinator_knows_members_and_assignments(world: World) -> None:
    first = await world.start(1)
    topic_id = await first.create("a", 2)
    epoch = (await first.beat("m", 0, "a")).member_epoch
    second = await world.start(2)
    await first.stop()
    answer = await second.beat("m", epoch)
    assert answer.member_epoch == epoch
    assert not answer.HasField("assignment")
    assert parts(await second.beat("m", 0, "a")) == {topic_id: [0, 1]}


async def test_heartbeat_whose_record_was_not_written_has_not_happened(
    world: World, process: Process
) -> None:
    await process.create("a", 1)
    await process.until(lambda: process.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    world.log.fail_next_append(Fault.NOT_WRITTEN)
    request = pb.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", subscribed_topic_names=pb.TopicNames(names=["a"])
    )
    with pytest.raises(KafkaError) as caught:
        await process.groups.ShareGroupHeartbeat(request, CONTEXT)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert caught.value.retriable
    listed = await process.until(lambda: process.groups.ListGroups(pb.ListGroupsRequest(), CONTEXT))
    assert list(listed.groups) == []
    assert parts(await process.beat("m", 0, "a"))


SHORT_SESSIONS = (
    "group.share.min.session.timeout.ms=1",
    "group.share.session.timeout.ms=50",
    "group.share.min.heartbeat.interval.ms=1",
    "group.share.heartbeat.interval.ms=10",
)


async def test_fenced_and_leaving_members_are_told_of(world: World) -> None:
    process = await world.start(1, *SHORT_SESSIONS)
    await process.create("a", 1)
    await process.beat("leaves", 0, "a")
    assert (await process.beat("leaves", -1)).member_epoch == -1
    assert process.departed == [("g", "leaves")]
    await process.beat("silent", 0, "a")
    await eventually(lambda: ("g", "silent") in process.departed)
    with pytest.raises(KafkaError) as caught:
        await process.beat("silent", 1)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_nobody_hears_of_a_fenced_member_before_that_is_durable(world: World) -> None:
    """Its records must not go to others while the group may still have it."""
    process = await world.start(1, *SHORT_SESSIONS)
    await process.create("a", 1)
    await process.beat("silent", 0, "a")
    world.log.hold()
    shard = process.host.shard(shard_of("g", 50))
    await eventually(lambda: shard._pending.applied > shard._pending.durable)  # it was decided
    await asyncio.sleep(0.05)
    assert process.departed == []
    world.log.fail_next_append(Fault.NOT_WRITTEN)
    world.log.release()
    await eventually(lambda: process.departed == [("g", "silent")])  # decided again, after another session


async def test_describe_names_topics_and_leaves_out_deleted_ones(process: Process) -> None:
    a = await process.create("a", 1)
    b = await process.create("b", 1)
    epoch = (await process.beat("m", 0, "a", "b")).member_epoch
    group = await described(process)
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
    await process.delete("a")
    (member,) = (await described(process)).members
    assert [some.topic_name for some in member.assignment.topic_partitions] == ["b"]


async def test_describe_of_an_unknown_group(process: Process) -> None:
    await process.create("a", 1)
    await process.beat("m", 0, "a", group="x")
    group = await described(process, "x")
    assert group.error_code == 0
    missing = await process.until(lambda: described_now(process, "g"))
    assert (code(missing), missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "")
    nameless = await process.until(lambda: described_now(process, ""))
    assert (code(nameless), nameless.group_state) == (ErrorCode.INVALID_GROUP_ID, "")


async def described_now(process: Process, group: str) -> pb.ShareGroupDescribeResponse.DescribedGroup:
    found = await described(process, group)
    if code(found) in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        raise KafkaError(code(found))
    return found


async def test_groups_are_listed_over_all_shards(process: Process) -> None:
    await process.create("a", 1)
    for group in ("g1", "g2", "g3"):
        await process.beat("m", 0, "a", group=group)
    await process.beat("m", -1, group="g2")

    async def listed(**filters: list[str]) -> dict[str, str]:
        answer = await process.groups.ListGroups(pb.ListGroupsRequest(**filters), CONTEXT)
        assert all((some.group_type, some.protocol_type) == ("share", "share") for some in answer.groups)
        return {some.group_id: some.group_state for some in answer.groups}

    assert await listed() == {"g1": "Stable", "g2": "Empty", "g3": "Stable"}
    assert await listed(states_filter=["EMPTY"], types_filter=["Share"]) == {"g2": "Empty"}
    assert await listed(types_filter=["Classic"]) == {}


async def test_lag_counts_what_is_not_finished(world: World, process: Process) -> None:
    topic_id = await process.create("a", 3)
    await process.beat("m", 0, "a")
    key = SharePartitionKey("g", topic_id, 0)
    world.states.states[key] = StateSummary(1, 7, 40, 5)
    world.ends.ends[TopicIdPartition(topic_id, 0)] = 105
    world.states.states[SharePartitionKey("g", topic_id, 1)] = StateSummary(1, 0, 40, -1)
    (topic,) = await offsets(process)
    assert (topic.topic_name, topic.topic_id) == ("a", topic_id)
    assert [(some.start_offset, some.lag, some.leader_epoch) for some in topic.partitions] == [
        (40, 60, 7),
        (40, -1, 0),
        (-1, -1, 0),
    ]


async def test_partition_that_cannot_be_counted_says_why(world: World, process: Process) -> None:
    topic_id = await process.create("a", 2)
    await process.beat("m", 0, "a")
    world.states.states[SharePartitionKey("g", topic_id, 0)] = StateSummary(1, 0, 40, 0)
    world.ends.ends[TopicIdPartition(topic_id, 0)] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    world.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    (topic,) = await offsets(process)
    assert [(code(some), some.start_offset, some.lag) for some in topic.partitions] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1),
    ]


async def test_offsets_of_what_is_not_there_are_unknown_without_an_error(process: Process) -> None:
    await process.create("a", 2)
    await process.create("b", 1)
    await process.beat("m", 0, "a")
    assert await offsets(process, "nobody") == []
    request = pb.DescribeShareGroupOffsetsRequest()
    group = request.groups.add(group_id="g")
    group.topics.add(topic_name="b", partitions=[0])
    group.topics.add(topic_name="zzz", partitions=[4])
    group.topics.add(topic_name="a", partitions=[9])
    request.groups.add(group_id="g")
    full, empty = (await process.groups.DescribeShareGroupOffsets(request, CONTEXT)).groups
    assert [
        (topic.topic_name, some.partition, some.start_offset, some.lag, some.error_code)
        for topic in full.topics
        for some in topic.partitions
    ] == [("a", 9, -1, -1, 0), ("b", 0, -1, -1, 0), ("zzz", 4, -1, -1, 0)]
    assert list(empty.topics) == []


async def test_offsets_of_a_group_held_elsewhere_are_refused_in_band(world: World) -> None:
    process = await world.start(1)
    await process.host.stop()
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id="g", all_topics=True)
    (group,) = (await process.groups.DescribeShareGroupOffsets(request, CONTEXT)).groups
    assert code(group) is ErrorCode.NOT_COORDINATOR


async def test_altered_offsets_are_initialised_at_a_higher_epoch(world: World, process: Process) -> None:
    topic_id = await process.create("a", 2)
    answer = await alter(process, ("a", 0, 40), ("a", 9, 1), ("zzz", 0, 1))
    assert [
        (topic.topic_name, topic.topic_id, [some.error_code for some in topic.partitions])
        for topic in answer.responses
    ] == [
        ("a", topic_id, [0]),
        ("a", topic_id, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("zzz", "", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    assert world.states.states == {SharePartitionKey("g", topic_id, 0): StateSummary(1, 0, 40, 0)}
    world.ends.ends[TopicIdPartition(topic_id, 0)] = 105
    (topic,) = await offsets(process)
    assert [(some.start_offset, some.lag) for some in topic.partitions] == [(40, 65)]


async def test_alter_that_fails_at_the_share_coordinator_says_so(world: World, process: Process) -> None:
    topic_id = await process.create("a", 1)
    world.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "stale"
    )
    (topic,) = (await alter(process, ("a", 0, 40))).responses
    assert [(code(some), some.error_message) for some in topic.partitions] == [
        (ErrorCode.FENCED_STATE_EPOCH, "stale")
    ]
    world.states.refuse.clear()
    (topic,) = (await alter(process, ("a", 0, 41))).responses
    assert not topic.partitions[0].error_code


async def test_the_log_tells_what_was_done_of_it(world: World, process: Process) -> None:
    """Some was refused, some failed."""
    topic_id = await process.create("a", 2)
    await process.create("b", 1)
    await process.create("c", 1)
    world.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "stale"
    )
    deletion = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a", "b", "c"])
    with capture_logs() as said:
        await alter(process, ("a", 0, 40), ("zzz", 0, 1))
        await alter(process, ("a", 0, 40), ("a", 1, 40), ("b", 0, 40))
        await process.groups.DeleteShareGroupOffsets(deletion, CONTEXT)
    altered, deleted = [line for line in said if "offsets of a group" in line["event"]]
    assert (altered["event"], altered["partitions"]) == ("offsets of a group altered", 2)
    assert (deleted["event"], deleted["topics"]) == ("offsets of a group deleted", ["b"])


async def test_alter_of_a_group_with_members_is_refused_as_a_whole(process: Process) -> None:
    await process.create("a", 1)
    await process.beat("m", 0, "a")
    with pytest.raises(KafkaError) as caught:
        await alter(process, ("a", 0, 40))
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


async def test_deleted_offsets_start_anew(world: World, process: Process) -> None:
    topic_id = await process.create("a", 2)
    await process.create("b", 1)
    await process.beat("m", 0, "a")
    await process.beat("m", -1)
    request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a", "b", "zzz", "a"])
    answer = await process.groups.DeleteShareGroupOffsets(request, CONTEXT)
    assert [(some.topic_name, some.error_code) for some in answer.responses] == [
        ("a", 0),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert answer.responses[0].topic_id == topic_id
    assert world.states.states == {}
    assert await offsets(process) == []
    nothing = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["b"])
    (refused,) = (await process.groups.DeleteShareGroupOffsets(nothing, CONTEXT)).responses
    assert refused.error_message == "There is no offset information to delete."


async def test_deletion_that_fails_at_the_share_coordinator_says_so(world: World, process: Process) -> None:
    topic_id = await process.create("a", 2)
    await process.beat("m", 0, "a")
    await process.beat("m", -1)
    world.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a"])
    (refused,) = (await process.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert code(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.states.refuse.clear()
    (done,) = (await process.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert not done.error_code
    assert world.states.states == {}


async def test_groups_are_deleted_each_with_its_result(world: World, process: Process) -> None:
    await process.create("a", 2)
    for group in ("empty", "busy"):
        await process.beat("m", 0, "a", group=group)
    await process.beat("m", -1, group="empty")
    assert await delete_groups(process, "empty", "busy", "nobody") == [
        0,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert {key.group_id for key in world.states.states} == {"busy"}


async def test_group_without_state_is_deleted_too(process: Process) -> None:
    await process.beat("m", 0, "not there")
    await process.beat("m", -1)
    assert await delete_groups(process, "g") == [0]


async def test_group_stays_when_its_state_could_not_be_deleted(world: World, process: Process) -> None:
    topic_id = await process.create("a", 1)
    await process.beat("m", 0, "a")
    await process.beat("m", -1)
    world.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await delete_groups(process, "g") == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.states.refuse.clear()
    assert await delete_groups(process, "g") == [0]


async def test_group_that_somebody_joins_meanwhile_is_kept(world: World, process: Process) -> None:
    topic_id = await process.create("a", 1)
    await process.beat("m", 0, "a")
    await process.beat("m", -1)
    world.states.open.clear()
    deletion = asyncio.create_task(delete_groups(process, "g"))
    await eventually(lambda: ("delete", SharePartitionKey("g", topic_id, 0)) in world.states.calls)
    epoch = (await process.beat("m", 0, "a")).member_epoch
    world.states.open.set()
    assert await deletion == [ErrorCode.NON_EMPTY_GROUP]
    assert parts(await process.beat("m", epoch)) == {topic_id: [0]}


async def test_initialisation_that_cannot_be_noted_is_begun_again_by_the_next_owner(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = await world.start(1, initialize_wait=0.01)
    topic_id = await first.create("a", 1)
    world.states.open.clear()
    epoch = (await first.beat("m", 0, "a")).member_epoch
    await first.host.stop()
    with caplog.at_level(logging.WARNING):
        world.states.open.set()
        await eventually(lambda: "was not noted" in caplog.text)
    second = await world.start(2)
    await first.stop()
    assert parts(await second.beat("m", epoch)) == {topic_id: [0]}
    assert world.states.states[SharePartitionKey("g", topic_id, 0)].state_epoch == 2


async def test_closing_gives_up_what_is_under_way(world: World) -> None:
    process = await world.start(1, initialize_wait=0.01)
    await process.create("a", 1)
    world.states.open.clear()
    await process.beat("m", 0, "a")
    await process.groups.close()
    await process.stop()
    assert world.states.states == {}


async def test_alter_of_nothing_tells_nobody(world: World, process: Process) -> None:
    answer = await alter(process, ("zzz", 0, 1))
    assert [code(some) for topic in answer.responses for some in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert world.states.calls == []
