"""The RPCs of consumer groups: membership, offsets, also in transactions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1, "group.initial.rebalance.delay.ms=0")


async def join(broker: Broker, member: str = "", **more: Any) -> pb.JoinGroupResponse:
    request = pb.JoinGroupRequest(
        group_id="g",
        member_id=member,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[pb.JoinGroupRequest.Protocol(name="range", metadata=b"metadata")],
        client_id="c",
        client_host="h",
        **more,
    )
    response: pb.JoinGroupResponse = await broker.until(lambda: broker.groups.JoinGroup(request, CONTEXT))
    return response


def part(**assignments: bytes) -> list[pb.SyncGroupRequest.Assignment]:
    return [
        pb.SyncGroupRequest.Assignment(member_id=member, assignment=value)
        for member, value in assignments.items()
    ]


async def sync(broker: Broker, member: str, generation: int, **assignments: bytes) -> bytes:
    request = pb.SyncGroupRequest(
        group_id="g", member_id=member, generation_id=generation, assignments=part(**assignments)
    )
    response = await broker.groups.SyncGroup(request, CONTEXT)
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    return bytes(response.assignment)


async def test_only_member_leads_and_gets_its_assignment(broker: Broker) -> None:
    joined = await join(broker)
    assert (joined.leader, joined.generation_id, joined.protocol_name) == (joined.member_id, 1, "range")
    assert [(member.member_id, member.metadata) for member in joined.members] == [
        (joined.member_id, b"metadata")
    ]
    assert await sync(broker, joined.member_id, 1, **{joined.member_id: b"all"}) == b"all"


async def test_deferred_replies_reach_all_members(broker: Broker) -> None:
    first = await join(broker)
    joining = asyncio.create_task(join(broker))
    await asyncio.sleep(0)
    again = await join(broker, first.member_id)
    second = await joining
    assert again.generation_id == second.generation_id == 2
    assert again.leader == second.leader
    leader, other = sorted((again, second), key=lambda joined: joined.member_id != joined.leader)
    waiting = asyncio.create_task(sync(broker, other.member_id, 2))
    assignments = {leader.member_id: b"first", other.member_id: b"second"}
    assert await sync(broker, leader.member_id, 2, **assignments) == b"first"
    assert await waiting == b"second"


async def test_new_member_without_id_joins_with_the_one_it_receives(broker: Broker) -> None:
    with pytest.raises(KafkaError) as caught:
        await join(broker, require_known_member_id=True)
    assert caught.value.code is ErrorCode.MEMBER_ID_REQUIRED
    member = caught.value.metadata["member_id"]
    assert (await join(broker, member, require_known_member_id=True)).member_id == member


async def test_each_leaving_member_has_its_own_error(broker: Broker) -> None:
    joined = await join(broker)
    members = [pb.LeaveGroupRequest.Member(member_id=name) for name in (joined.member_id, "unknown")]
    response = await broker.groups.LeaveGroup(pb.LeaveGroupRequest(group_id="g", members=members), CONTEXT)
    assert [(member.member_id, member.error_code) for member in response.members] == [
        (joined.member_id, 0),
        ("unknown", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


async def test_heartbeat_of_an_unknown_member_is_rejected(broker: Broker) -> None:
    joined = await join(broker)
    await sync(broker, joined.member_id, 1)
    beat = pb.HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=1)
    await broker.groups.Heartbeat(beat, CONTEXT)
    beat.member_id = "stranger"
    with pytest.raises(KafkaError) as caught:
        await broker.groups.Heartbeat(beat, CONTEXT)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_committed_offsets_are_fetched_until_they_are_deleted(broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    request = pb.OffsetCommitRequest(group_id="g", generation_id=-1)
    for partition in (0, 1):
        request.partitions.add(
            topic_id=topic_id, partition=partition, committed_offset=5 + partition, metadata="so far"
        )
    response = await broker.until(lambda: broker.groups.OffsetCommit(request, CONTEXT))
    assert [(row.partition, row.error_code) for row in response.partitions] == [(0, 0), (1, 0)]
    fetch = pb.OffsetFetchRequest(group_id="g")
    found = (await broker.groups.OffsetFetch(fetch, CONTEXT)).partitions
    assert [(row.partition, row.committed_offset, row.metadata) for row in found] == [
        (0, 5, "so far"),
        (1, 6, "so far"),
    ]
    delete_offsets = pb.OffsetDeleteRequest(group_id="g")
    delete_offsets.partitions.add(topic_id=topic_id, partition=0)
    await broker.groups.OffsetDelete(delete_offsets, CONTEXT)
    found = (await broker.groups.OffsetFetch(fetch, CONTEXT)).partitions
    assert [(row.partition, row.committed_offset) for row in found] == [(1, 6)]
