"""Acknowledgements by `LocalLeader`: each part has its outcome when it is durable."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
)
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    Harness,
    code,
)
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.virtual_time import settle


async def _held(harness: Harness, records: int = 10, member: str = "m1") -> int:
    """The token of records that a member acquired."""
    await harness.publish(records)
    (response,) = await harness.acquire(member=member)
    return response.acquired[0].lock_token


async def test_several_batches_are_applied_in_one_write(harness: Harness) -> None:
    await _held(harness)
    assert not (await harness.acknowledge((0, 4, ACCEPT), (5, 5, REJECT), (6, 9, RELEASE))).error_code
    assert len(harness.persister.writes) == 1
    assert await harness.start_offset() == 6


async def test_rejected_batch_fails_its_partition_only() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=2)
        for partition in range(2):
            await harness.publish(4, partition)
        await harness.acquire(partitions=(0, 1))
        request = pb.AcknowledgeRecordsRequest(group_id="g", member_id="m1")
        for partition, last in ((0, 9), (1, 3)):
            part = request.partitions.add(topic_id=TOPIC, partition=partition)
            part.batches.add(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])
            part.batches.add(first_offset=2, last_offset=last, acknowledge_types=[ACCEPT])
        response = await harness.stub.AcknowledgeRecords(request)
        assert [code(answer) for answer in response.partitions] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert response.acquisition_lock_timeout_ms == 30_000
        assert [await harness.start_offset(partition) for partition in (0, 1)] == [0, 4]


async def test_each_offset_may_have_its_own_type(harness: Harness) -> None:
    await _held(harness, 3)
    request = pb.AcknowledgeRecordsRequest(group_id="g", member_id="m1")
    part = request.partitions.add(topic_id=TOPIC, partition=0)
    part.batches.add(first_offset=0, last_offset=2, acknowledge_types=[ACCEPT, 0, RELEASE])
    (response,) = (await harness.stub.AcknowledgeRecords(request)).partitions
    assert not response.error_code
    assert await harness.start_offset() == 2


async def test_ack_below_the_start_offset_needs_no_token(harness: Harness) -> None:
    token = await _held(harness)
    await harness.acknowledge((0, 4, ACCEPT))
    assert not (await harness.acknowledge((0, 4, RELEASE))).error_code
    refused = await harness.acknowledge((0, 4, RELEASE), token=token)
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("member", ["m2", "@m1", ""])
async def test_records_of_another_member_are_rejected(harness: Harness, member: str) -> None:
    await _held(harness)
    refused = await harness.acknowledge((0, 9, ACCEPT), member=member)
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


async def test_renew_must_be_allowed_by_the_request(harness: Harness) -> None:
    await _held(harness)
    assert code(await harness.acknowledge((0, 9, RENEW), renew=False)) is ErrorCode.INVALID_REQUEST
    assert not (await harness.acknowledge((0, 9, RENEW))).error_code
    assert not harness.persister.writes


async def test_delayed_release_is_redelivered_after_its_delay(harness: Harness) -> None:
    await _held(harness, 1)
    assert not (await harness.acknowledge((0, 0, RELEASE), delay_ms=5000)).error_code
    before = asyncio.get_running_loop().time()
    (response,) = await harness.acquire(max_wait_ms=60_000)
    assert response.acquired[0].delivery_count == 2
    assert 5 <= asyncio.get_running_loop().time() - before < 5.1


async def test_only_releases_can_be_delayed(harness: Harness) -> None:
    await _held(harness)
    refused = await harness.acknowledge((0, 4, RELEASE), (5, 9, ACCEPT), delay_ms=5000)
    assert code(refused) is ErrorCode.INVALID_REQUEST
    assert not (await harness.acknowledge((0, 9, ACCEPT))).error_code


async def test_failed_write_is_the_result(harness: Harness) -> None:
    await _held(harness)
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away"))
    refused = await harness.acknowledge((0, 9, ACCEPT))
    assert (code(refused), refused.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")


async def test_cancelled_call_does_not_cancel_its_acknowledgement(harness: Harness) -> None:
    await _held(harness)
    harness.persister.open.clear()
    calls = [
        asyncio.create_task(harness.acknowledge((0, 4, ACCEPT))),
        asyncio.create_task(harness.acknowledge((5, 9, ACCEPT))),
    ]
    await eventually(lambda: harness.persister.writes)
    await settle()
    calls[0].cancel()
    harness.persister.open.set()
    assert not (await calls[1]).error_code
    assert await harness.start_offset() == 10


async def test_unknown_partition_has_its_error(harness: Harness) -> None:
    refused = await harness.acknowledge((0, 9, ACCEPT), partition=3)
    assert code(refused) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_missing_state_is_a_final_error(harness: Harness) -> None:
    request = pb.AcknowledgeRecordsRequest(group_id="new", member_id="m1")
    part = request.partitions.add(topic_id=TOPIC, partition=0)
    part.batches.add(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])
    (refused,) = (await harness.stub.AcknowledgeRecords(request)).partitions
    assert code(refused) is ErrorCode.INVALID_RECORD_STATE


async def test_local_call_times_out(harness: Harness) -> None:
    await _held(harness, 3)
    harness.persister.open.clear()
    calls = harness.local
    part = AckPart(TOPIC, 0, [AckBatch(0, 2, (ACCEPT,))])
    with pytest.raises(KafkaError) as late:
        await calls.acknowledge(AcknowledgeCall("g", "m1", [part]), timeout=5.0)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    harness.persister.open.set()


async def test_unexpected_error_is_the_result_of_its_partition(harness: Harness) -> None:
    async def fail(group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        raise RuntimeError("a fault")

    harness.leadership.share_partition = fail  # type: ignore[method-assign]  # for once
    part = AckPart(TOPIC, 0, [AckBatch(0, 2, (ACCEPT,))])
    (outcome,) = await harness.local.acknowledge(AcknowledgeCall("g", "m1", [part]), 5.0)
    assert outcome.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


async def _acknowledged(harness: Harness, types: tuple[int, ...]) -> AckResult:
    """The result of types for 5 to 7 in a request that is not a renewal."""
    await _held(harness)
    part = AckPart(TOPIC, 0, [AckBatch(5, 7, types)])
    call = AcknowledgeCall(GROUP, "m1", [part], renew_allowed=False)
    (result,) = await harness.local.acknowledge(call, 5.0)
    return result


@pytest.mark.parametrize("types", [(4,), (1, 4, 1)])
async def test_a_renewal_needs_a_renewal_request(harness: Harness, types: tuple[int, ...]) -> None:
    result = await _acknowledged(harness, types)
    assert result.error_code is ErrorCode.INVALID_REQUEST
    assert "RENEW is not allowed" in result.error_message


@pytest.mark.parametrize("types", [(1,), (0, 2, 3)])
async def test_other_types_need_no_renewal_request(harness: Harness, types: tuple[int, ...]) -> None:
    assert not (await _acknowledged(harness, types)).error_code
