"""The RPCs of consumer groups: membership, offsets, also in transactions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.leases import names
from sharebroker_server.routing.transaction_check import Claim
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster
from tests.testkit.waiting import eventually


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


SHARD = shard_of("g", 50)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def commit(broker: Broker, offset: int, *, version: int = 2, epoch: int = 3) -> ErrorCode:
    request = pb.TxnOffsetCommitRequest(
        transactional_id="x", producer_id=7, producer_epoch=epoch, transaction_version=version
    )
    request.commit.group_id, request.commit.generation_id = "g", -1
    request.commit.partitions.add(topic_id="t", partition=4, committed_offset=offset)
    response = await broker.until(lambda: broker.groups.TxnOffsetCommit(request, CONTEXT))
    (partition,) = response.partitions
    return ErrorCode(partition.error_code)


async def end(broker: Broker, *, commit: bool = True, epoch: int = 4, coordinator: int = 7) -> None:
    request = pb.CompleteTransactionRequest(
        shard=SHARD,
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator,
    )
    await broker.until(lambda: broker.groups.CompleteTransaction(request, CONTEXT))


async def fetch(broker: Broker, *, require_stable: bool = True) -> list[tuple[int, ErrorCode]]:
    request = pb.OffsetFetchRequest(group_id="g", require_stable=require_stable)
    response = await broker.until(lambda: broker.groups.OffsetFetch(request, CONTEXT))
    return [(one.committed_offset, ErrorCode(one.error_code)) for one in response.partitions]


@pytest.mark.parametrize("version", [0, 2])
async def test_a_transaction_is_confirmed_once(cluster: Cluster, broker: Broker, version: int) -> None:
    assert await commit(broker, 5, version=version) is ErrorCode.NONE
    assert await commit(broker, 6, version=version) is ErrorCode.NONE
    partition = names.partition(OFFSETS_TOPIC_ID, SHARD)
    assert cluster.transactions.requests == [(Claim("x", adds=version == 2), 7, 3, partition)]
    assert await fetch(broker) == [(-1, UNSTABLE)]
    assert await fetch(broker, require_stable=False) == []
    await end(broker)
    assert await fetch(broker) == [(6, ErrorCode.NONE)]


async def test_next_coordinator_completes_the_transaction(cluster: Cluster, broker: Broker) -> None:
    await commit(broker, 5)
    await broker.stop()
    cluster.processes.remove(broker)
    heir = await cluster.start(2)
    assert await fetch(heir) == [(-1, UNSTABLE)]
    await end(heir, commit=False)
    await end(heir, commit=True)  # sent again, and changes nothing
    assert await fetch(heir) == []


async def test_stale_ends_are_rejected(broker: Broker) -> None:
    await commit(broker, 5)
    with pytest.raises(KafkaError) as older:
        await end(broker, epoch=2)
    assert older.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as fenced:
        await end(broker, coordinator=6)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await fetch(broker) == [(-1, UNSTABLE)]


async def test_transaction_ended_during_confirmation_is_confirmed_again(
    cluster: Cluster, broker: Broker
) -> None:
    cluster.transactions.open.clear()
    cluster.transactions.outcomes = [7, KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)]
    late = asyncio.create_task(commit(broker, 5))
    await eventually(lambda: cluster.transactions.requests)
    await end(broker)
    cluster.transactions.open.set()
    with pytest.raises(KafkaError) as fenced:
        await late
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(cluster.transactions.requests) == 2
    assert await fetch(broker) == [], "no producer would ever end it"


async def test_concurrent_confirmations_of_one_transaction(cluster: Cluster, broker: Broker) -> None:
    cluster.transactions.open.clear()
    both = [asyncio.create_task(commit(broker, offset)) for offset in (5, 6)]
    await eventually(lambda: len(cluster.transactions.requests) == 2)
    cluster.transactions.open.set()
    assert await asyncio.gather(*both) == [ErrorCode.NONE] * 2
    await end(broker)
    assert await fetch(broker) == [(6, ErrorCode.NONE)]


async def test_confirmation_attempts_are_limited(cluster: Cluster, broker: Broker) -> None:
    confirm = cluster.transactions.confirm

    async def confirm_and_end(claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        await end(broker)
        return await confirm(claim, producer_id, producer_epoch, partition)

    cluster.transactions.confirm = confirm_and_end  # type: ignore[method-assign]  # for this test
    with pytest.raises(KafkaError) as rejected:
        await commit(broker, 5)
    assert rejected.value.code is ErrorCode.INVALID_TXN_STATE
    assert await fetch(broker) == []


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_unconfirmed_transaction_is_rejected(
    cluster: Cluster, broker: Broker, error: ErrorCode, seen: ErrorCode
) -> None:
    cluster.transactions.outcomes = [KafkaError(error)]
    with pytest.raises(KafkaError) as rejected:
        await commit(broker, 5)
    assert rejected.value.code is seen
    assert await fetch(broker) == []


async def test_unreachable_transaction_coordinator_is_retriable(cluster: Cluster, broker: Broker) -> None:
    cluster.transactions.outcomes = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)]
    assert await commit(broker, 5) is ErrorCode.NONE  # `until` retries after COORDINATOR_NOT_AVAILABLE
    assert len(cluster.transactions.requests) == 2
