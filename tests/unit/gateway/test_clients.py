"""Backoff, and calls to coordinators and leaders that moved."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.gateway.v1 import share_pb2
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.clients import Backoff, Routes
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AppendCall, AppendPart
from sharebroker_server.leases.port import ClusterMember
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, member, refusing


async def test_backoff_ends_at_the_deadline() -> None:
    backoff = Backoff(Deadline(0.05))
    pauses = 0
    while await backoff.pause():
        pauses += 1
    assert 1 <= pauses <= 3


@pytest.mark.parametrize("in_band", [False, True])
async def test_heartbeat_is_retried_at_the_new_coordinator(harness: Harness, in_band: bool) -> None:
    if in_band:
        harness.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    else:
        harness.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    request = group.ShareGroupHeartbeatRequest(group_id="group", member_id="me")
    response = await harness.share.ShareGroupHeartbeat(request)
    assert (response.member_epoch, len(harness.coordinator.heartbeats)) == (1, 2)
    assert harness.coordinator.heartbeats[0].client_host.startswith("ipv4:")


@pytest.mark.parametrize(
    ("number", "code"), [(6, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9999, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_unknown_error_codes_are_unknown_server_error(number: int, code: ErrorCode) -> None:
    assert ErrorCode(number) is code


def produced(timeout_ms: int, *partitions: int) -> pb.ProduceRequest:
    parts = [pb.ProduceRequest.PartitionData(index=index, records=b"batch") for index in partitions]
    topic = pb.ProduceRequest.TopicData(name="flights", partition_data=parts)
    return pb.ProduceRequest(timeout_ms=timeout_ms, topic_data=[topic])


async def codes(harness: Harness, request: pb.ProduceRequest) -> list[int]:
    (response,) = (await harness.produce.Produce(request)).responses
    return [part.error_code for part in response.partition_responses]


@pytest.mark.parametrize(("number", "turns"), [(1, 0), (500, 0), (501, 1), (1_700, 3)])
async def test_leaders_of_many_partitions_are_found_in_portions(
    harness: Harness, number: int, turns: int
) -> None:
    parts = [TopicIdPartition(TOPIC.topic_id, index % 2) for index in range(number)]
    await harness.gateway.leaders.by_leader(parts)
    passed = 0

    def pass_turn() -> None:
        nonlocal passed
        passed += 1
        if passed <= turns:
            loop.call_soon(pass_turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(pass_turn)
    groups, unknown = await harness.gateway.leaders.by_leader(parts)
    assert [some for _, some in groups] == [parts]
    assert not unknown
    assert passed == turns


async def test_partition_without_leader_has_leader_not_available(harness: Harness) -> None:
    harness.ownership.no_owner = True
    assert await codes(harness, produced(50, 0)) == [ErrorCode.LEADER_NOT_AVAILABLE]


async def test_unreached_leader_is_retried_until_the_deadline(harness: Harness) -> None:
    harness.ownership.give(1, member(9, "127.0.0.1:1"))
    assert await codes(harness, produced(100, 0, 1)) == [0, ErrorCode.LEADER_NOT_AVAILABLE]


async def test_leader_that_fails_in_a_call_has_unknown_outcome(harness: Harness) -> None:
    fake = harness.local_leader(9, partition=1)

    def dies(request: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    fake.answer = dies
    assert await codes(harness, produced(5_000, 0, 1)) == [0, ErrorCode.REQUEST_TIMED_OUT]
    assert len(fake.requests) == 1


async def test_fetch_continues_without_an_unreachable_leader(harness: Harness) -> None:
    harness.ownership.give(1, member(9, "127.0.0.1:1"))
    part = share_pb2.ShareFetchRequest.FetchPartition(partition_index=1)
    topic = share_pb2.ShareFetchRequest.FetchTopic(topic_id=TOPIC.topic_id, partitions=[part])
    request = share_pb2.ShareFetchRequest(group_id="g", member_id="m", max_records=1, topics=[topic])
    (response,) = (await harness.share.ShareFetch(request)).responses[0].partitions
    assert response.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert any(TOPIC.topic_id in resource for resource in harness.ownership.forgotten)


async def test_session_binds_its_leaders_once(harness: Harness) -> None:
    lookups: list[str] = []
    known_owner = harness.ownership.known_owner

    def counted(resource: str) -> ClusterMember | None:
        lookups.append(resource)
        return known_owner(resource)

    harness.ownership.known_owner = counted  # type: ignore[method-assign]
    routes: Routes = {}
    parts = [TopicIdPartition(TOPIC.topic_id, partition) for partition in range(2)]
    for _ in range(3):
        ((_, led),), unled = await harness.gateway.leaders.by_leader(parts, routes)
        assert (led, unled) == (parts, [])
    assert (len(lookups), set(routes)) == (2, set(parts))


async def test_route_is_dropped_when_the_partition_moved(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    other = harness.local_leader(2, partition=1)
    part = TopicIdPartition(TOPIC.topic_id, 0)
    routes: Routes = {}
    await harness.gateway.leaders.by_leader([part], routes)
    stale = routes[part]
    harness.ownership.on_forget = lambda _: harness.ownership.give(0, member(2, "127.0.0.1:2"))
    call = AcknowledgeCall("g", "m", [AckPart(*part, [AckBatch(0, 0, (1,))])])
    (result,) = await harness.gateway.leaders.acknowledge(call, Deadline(5), routes)
    assert (result.error_code, len(other.requests)) == (ErrorCode.NONE, 1)
    assert routes[part] is not stale


async def test_route_is_dropped_when_its_leader_fails(harness: Harness) -> None:
    def fails(request: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    harness.leader.answer = fails
    part = TopicIdPartition(TOPIC.topic_id, 0)
    routes: Routes = {}
    call = AcknowledgeCall("g", "m", [AckPart(*part, [AckBatch(0, 0, (1,))])])
    (result,) = await harness.gateway.leaders.acknowledge(call, Deadline(5), routes)
    assert (result.error_code, routes) == (ErrorCode.REQUEST_TIMED_OUT, {})


async def test_results_are_in_the_order_of_the_parts(harness: Harness) -> None:
    harness.local_leader(2, partition=1)
    parts = [AppendPart(TOPIC.topic_id, partition, b"batch") for partition in (1, 0, 1)]
    results = await harness.gateway.leaders.append(AppendCall(parts), Deadline(5))
    assert [result.partition for result in results] == [1, 0, 1]
