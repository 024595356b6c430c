"""ReconcileRecords: each partition has its own result, sent once durable, with the locks held by then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import ACCEPT, RELEASE, RENEW, TOPIC, Harness, code
from tests.unit.share_partition_leader.virtual_time import settle as turns

Answer = pb.ReconcileRecordsResponse.Partition


async def settle(
    harness: Harness,
    *ranges: tuple[int, int, int],
    member: str = "m1",
    renew: bool = False,
    partition: int = 0,
) -> Answer:
    """Reconciles (first, last, type) of one partition."""
    part = pb.ReconcileRecordsRequest.Partition(topic_id=TOPIC, partition=partition)
    for first, last, kind in ranges:
        part.ranges.add(first_offset=first, last_offset=last, type=delivery.AcknowledgeType.ValueType(kind))
    request = pb.ReconcileRecordsRequest(group_id="g", member_id=member, partitions=[part], renew_held=renew)
    (response,) = (await harness.stub.ReconcileRecords(request)).partitions
    return cast("Answer", response)


def held(response: Answer) -> Sequence[tuple[int, int, int]]:
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in response.held]


def left(response: Answer) -> Sequence[tuple[int, int, str]]:
    return [
        (one.first_offset, one.last_offset, delivery.LeftReason.Name(one.reason)) for one in response.left
    ]


async def test_result_is_durable_and_lists_held_locks(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire(member="m1")
    response = await settle(harness, (0, 3, ACCEPT))
    assert (held(response), left(response), code(response)) == ([(4, 9, 1)], [], ErrorCode.NONE)
    assert await harness.start_offset() == 4


async def test_empty_call_lists_held_locks(harness: Harness) -> None:
    assert held(await settle(harness)) == []  # has the partition loaded
    await harness.publish(10)
    await harness.acquire(member="m1")
    assert held(await settle(harness)) == [(0, 9, 1)]
    assert held(await settle(harness, member="m2")) == []


async def test_records_acquired_before_a_reload_are_reconciled(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire(member="m1")
    (await harness.share_partition()).retire()
    response = await settle(harness, (5, 7, ACCEPT), (8, 12, ACCEPT))
    assert left(response) == [(10, 12, "LEFT_REASON_PAST_END")]
    (rest,) = await harness.acquire(member="m2")
    assert [(run.first_offset, run.last_offset) for run in rest.acquired] == [(0, 4)]


async def test_reacquired_locks_time_out_too(harness: Harness) -> None:
    await harness.publish(10)
    response = await settle(harness, (0, 9, RENEW))
    assert held(response) == [(0, 9, 1)]
    share_partition = await harness.share_partition()
    before = response.held[0].lock_deadline_ms
    await asyncio.sleep(20)
    assert (await settle(harness, renew=True)).held[0].lock_deadline_ms == before + 20_000
    await asyncio.sleep(31)
    await eventually(lambda: not share_partition.core.in_flight.held())


async def test_failed_write_keeps_the_locks(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire(member="m1")
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert code(await settle(harness, (0, 3, ACCEPT))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert held(await settle(harness)) == [(0, 9, 1)]


@pytest.mark.parametrize(
    "finished", [(0, 9), (5, 9)], ids=["passed by the start offset", "within the window"]
)
async def test_pending_records_are_reported_when_durable(harness: Harness, finished: tuple[int, int]) -> None:
    """Its last lock timed out while writes failed: the next leader could redeliver it."""
    await harness.configure("share.delivery.count.limit", "2")
    await harness.publish(10)
    await harness.acquire(member="m2")
    await settle(harness, (*finished, RELEASE), member="m2")
    share_partition = await harness.share_partition()
    await harness.acquire(member="m2")
    harness.persister.open.clear()
    await asyncio.sleep(31)
    await eventually(lambda: not share_partition.core.in_flight.held())
    answering = asyncio.create_task(settle(harness, (*finished, ACCEPT)))
    await turns()
    assert not answering.done()
    harness.persister.open.set()
    assert left(await answering) == [(*finished, "LEFT_REASON_FINISHED")]
    share_partition.retire()
    assert all(run.first_offset < finished[0] for each in await harness.acquire() for run in each.acquired)


async def test_partition_of_another_leader_has_its_error(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire(member="m1")
    await harness.hand_over()
    assert code(await settle(harness, (0, 3, ACCEPT))) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("kind", [0, 5])
async def test_invalid_types_are_rejected(harness: Harness, kind: int) -> None:
    await harness.publish(10)
    assert code(await settle(harness, (0, 3, kind))) is ErrorCode.INVALID_REQUEST


async def test_missing_partition_has_its_error(harness: Harness) -> None:
    response = await settle(harness, (0, 3, ACCEPT), partition=7)
    assert code(response) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_acquire_without_records_returns_ranges(harness: Harness) -> None:
    await harness.publish(10)
    request = pb.AcquireRecordsRequest(
        group_id="g",
        member_id="m1",
        partitions=[delivery.TopicPartition(topic_id=TOPIC, partition=0)],
        max_records=10,
        without_records=True,
    )
    (response,) = (await harness.stub.AcquireRecords(request)).partitions
    assert ([(one.first_offset, one.last_offset) for one in response.acquired], response.record_batches) == (
        [(0, 9)],
        b"",
    )
