"""AcknowledgeRecords: all or nothing for each partition, answered when durable."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.share_calls.values import AcknowledgeCall, AckPart
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.local_calls import LocalShareCalls
from sharebroker_server.testkit.waiting import eventually
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    World,
    code,
)
from tests.unit.share_partition_leader.world import world as started


async def _held(world: World, records: int = 10, member: str = "m1") -> int:
    """The token of records that a member acquired."""
    await world.publish(records)
    (answer,) = await world.acquire(member=member)
    return answer.acquired[0].lock_token


async def test_several_batches_are_applied_in_one_write(world: World) -> None:
    await _held(world)
    assert not (await world.acknowledge((0, 4, ACCEPT), (5, 5, REJECT), (6, 9, RELEASE))).error_code
    assert len(world.persister.writes) == 1
    assert await world.start_offset() == 6


async def test_one_refused_batch_refuses_those_of_its_partition_only() -> None:
    async with started() as world:
        await world.create_topic(partitions=2)
        for partition in range(2):
            await world.publish(4, partition)
        await world.acquire(partitions=(0, 1))
        request = pb.AcknowledgeRecordsRequest(group_id="g", member_id="m1")
        for partition, last in ((0, 9), (1, 3)):
            part = request.partitions.add(topic_id=TOPIC, partition=partition)
            part.batches.add(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])
            part.batches.add(first_offset=2, last_offset=last, acknowledge_types=[ACCEPT])
        response = await world.stub.AcknowledgeRecords(request)
        assert [code(answer) for answer in response.partitions] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert response.acquisition_lock_timeout_ms == 30_000
        assert [await world.start_offset(partition) for partition in (0, 1)] == [0, 4]


async def test_a_type_for_each_offset(world: World) -> None:
    await _held(world, 3)
    request = pb.AcknowledgeRecordsRequest(group_id="g", member_id="m1")
    part = request.partitions.add(topic_id=TOPIC, partition=0)
    part.batches.add(first_offset=0, last_offset=2, acknowledge_types=[ACCEPT, 0, RELEASE])
    (answer,) = (await world.stub.AcknowledgeRecords(request)).partitions
    assert not answer.error_code
    assert await world.start_offset() == 2


async def test_below_the_start_it_is_ignored_without_a_token_and_refused_with_one(world: World) -> None:
    token = await _held(world)
    await world.acknowledge((0, 4, ACCEPT))
    assert not (await world.acknowledge((0, 4, RELEASE))).error_code
    refused = await world.acknowledge((0, 4, RELEASE), token=token)
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("member", ["m2", "@m1", ""])
async def test_another_members_records_are_refused(world: World, member: str) -> None:
    await _held(world)
    refused = await world.acknowledge((0, 9, ACCEPT), member=member)
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


async def test_renewals_must_be_announced(world: World) -> None:
    await _held(world)
    assert code(await world.acknowledge((0, 9, RENEW), renew=False)) is ErrorCode.INVALID_REQUEST
    assert not (await world.acknowledge((0, 9, RENEW))).error_code
    assert not world.persister.writes


async def test_a_delayed_release_comes_again_when_its_time_has_come(world: World) -> None:
    await _held(world, 1)
    assert not (await world.acknowledge((0, 0, RELEASE), delay_ms=5000)).error_code
    before = asyncio.get_running_loop().time()
    (answer,) = await world.acquire(max_wait_ms=60_000)
    assert answer.acquired[0].delivery_count == 2
    assert 5 <= asyncio.get_running_loop().time() - before < 5.1


async def test_only_releases_can_be_delayed(world: World) -> None:
    await _held(world)
    refused = await world.acknowledge((0, 4, RELEASE), (5, 9, ACCEPT), delay_ms=5000)
    assert code(refused) is ErrorCode.INVALID_REQUEST
    assert not (await world.acknowledge((0, 9, ACCEPT))).error_code


async def test_a_failed_write_is_told(world: World) -> None:
    await _held(world)
    world.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away"))
    refused = await world.acknowledge((0, 9, ACCEPT))
    assert (code(refused), refused.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")


async def test_a_caller_that_gave_up_leaves_its_acknowledgement_to_itself(world: World) -> None:
    await _held(world)
    world.persister.open.clear()
    calls = [
        asyncio.create_task(world.acknowledge((0, 4, ACCEPT))),
        asyncio.create_task(world.acknowledge((5, 9, ACCEPT))),
    ]
    await eventually(lambda: world.persister.writes)
    await settle()
    calls[0].cancel()
    world.persister.open.set()
    assert not (await calls[1]).error_code
    assert await world.start_offset() == 10


async def test_an_unknown_partition_is_told(world: World) -> None:
    refused = await world.acknowledge((0, 9, ACCEPT), partition=3)
    assert code(refused) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_group_that_never_acquired_is_refused_for_good(world: World) -> None:
    request = pb.AcknowledgeRecordsRequest(group_id="new", member_id="m1")
    part = request.partitions.add(topic_id=TOPIC, partition=0)
    part.batches.add(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])
    (refused,) = (await world.stub.AcknowledgeRecords(request)).partitions
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


async def test_who_calls_from_the_same_process_is_answered_in_time(world: World) -> None:
    await _held(world, 3)
    world.persister.open.clear()
    calls = LocalShareCalls(world.leadership)
    part = AckPart(TOPIC, 0, [AckBatch(0, 2, (ACCEPT,))])
    with pytest.raises(KafkaError) as late:
        await calls.acknowledge(AcknowledgeCall("g", "m1", [part]), timeout=5.0)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    world.persister.open.set()


async def test_a_failure_nobody_foresaw_is_the_answer_of_its_partition(world: World) -> None:
    async def fail(group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        raise RuntimeError("a fault")

    world.leadership.share_partition = fail  # type: ignore[method-assign]  # for once
    part = AckPart(TOPIC, 0, [AckBatch(0, 2, (ACCEPT,))])
    (outcome,) = await LocalShareCalls(world.leadership).acknowledge(AcknowledgeCall("g", "m1", [part]), 5.0)
    assert outcome.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
