"""Appends to led partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.values import AppendCall, AppendPart
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.routing.transaction_check import Claim
from sharebroker_server.share_partition_leader.log.append import PARTS_AT_ONCE
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import TOPIC, Harness, code


async def test_results_are_in_the_order_of_the_parts(harness: Harness) -> None:
    await harness.publish(2)
    parts = [AppendPart(TOPIC, 0, batch(1)), AppendPart(TOPIC, 7, batch(1)), AppendPart(TOPIC, 0, batch(2))]
    results = await harness.local.append(AppendCall(parts), 5.0)
    assert [(result.error_code, result.base_offset) for result in results] == [
        (ErrorCode.NONE, 2),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (ErrorCode.NONE, 3),
    ]


async def test_a_large_batch_is_not_overtaken_by_later_ones_of_its_call(harness: Harness) -> None:
    large, small = batch(6_000), batch(1)
    parts = [AppendPart(TOPIC, 0, data) for data in (large, small, large, small)]
    results = await harness.local.append(AppendCall(parts), 5.0)
    assert [result.base_offset for result in results] == [0, 6_000, 6_001, 12_001]


async def test_a_large_batch_does_not_delay_the_batches_of_other_calls(harness: Harness) -> None:
    parts = [AppendPart(TOPIC, 0, batch(50_000, 1))]
    large = asyncio.ensure_future(harness.local.append(AppendCall(parts), 5.0))
    await asyncio.sleep(0)
    (small,) = await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))]), 5.0)
    assert (small.base_offset, (await large)[0].base_offset) == (0, 1)


async def test_a_call_with_very_many_parts_is_appended_in_portions(harness: Harness) -> None:
    number = 2 * PARTS_AT_ONCE + 1
    results = await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))] * number), 5.0)
    assert [result.base_offset for result in results] == list(range(number))


async def test_invalid_batch_fails_its_partition(harness: Harness) -> None:
    (result,) = await harness.local.append(AppendCall([AppendPart(TOPIC, 0, b"garbage")]), 5.0)
    assert result.error_code is ErrorCode.CORRUPT_MESSAGE


async def test_append_that_is_late_times_out(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(topic_id: str, partition: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(harness.leadership, "led", never)
    with pytest.raises(KafkaError) as failure:
        await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))]), 0.5)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_queued_appends_that_are_late_time_out_and_may_be_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.publish(1)
    stored, write = asyncio.Event(), harness.records.append

    async def late(*args: Any, **options: Any) -> None:
        await stored.wait()
        await write(*args, **options)

    monkeypatch.setattr(harness.records, "append", late)
    with pytest.raises(KafkaError) as failure:
        await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))] * 2), 0.5)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT
    stored.set()
    (following,) = await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))]), 5.0)
    assert following.base_offset == 3


async def test_batches_of_one_call_for_a_partition_share_a_write(harness: Harness) -> None:
    await harness.create_topic(partitions=2)
    parts = [AppendPart(TOPIC, partition, batch(1)) for partition in (0, 1, 0, 1)]
    await harness.local.append(AppendCall(parts), 5.0)
    await harness.local.append(AppendCall(parts), 5.0)
    assert [number for _, number in harness.records.appends[-2:]] == [2, 2]


P = 7


def sent(sequence: int, *, epoch: int = 0, transactional: bool = True) -> bytes:
    return batch(1, producer=(P, epoch, sequence), transactional=transactional)


async def produce(
    harness: Harness, data: bytes, *, name: str = "x", adds: bool = False
) -> pb.ProduceResponse.Partition:
    request = pb.ProduceRequest(transactional_id=name, adds_partitions=adds)
    request.partitions.add(topic_id=TOPIC, record_batches=data)
    response: pb.ProduceResponse = await harness.stub.Produce(request)
    return response.partitions[0]


async def mark(harness: Harness, *, epoch: int = 0) -> None:
    await (await harness.leadership.led(TOPIC, 0)).own_log.end_transaction(Marker(P, epoch, 1, commit=True))


@pytest.mark.parametrize("adds", [True, False])
async def test_only_the_first_batch_of_a_transaction_is_verified(harness: Harness, adds: bool) -> None:
    offsets = [(await produce(harness, sent(n), adds=adds)).base_offset for n in range(3)]
    assert offsets == [0, 1, 2]
    assert harness.transactions.requests == [(Claim("x", adds), P, 0, names.partition(TOPIC, 0))]
    await mark(harness)
    assert (await produce(harness, sent(3), adds=adds)).base_offset == 4
    assert len(harness.transactions.requests) == 2


async def test_batches_waiting_for_one_verification_are_appended_in_order(harness: Harness) -> None:
    harness.transactions.open.clear()
    waiting = [asyncio.create_task(produce(harness, sent(n), adds=True)) for n in range(5)]
    await eventually(lambda: harness.transactions.requests)
    await asyncio.sleep(0)
    harness.transactions.open.set()
    assert [(await one).base_offset for one in waiting] == [0, 1, 2, 3, 4]
    assert len(harness.transactions.requests) == 1
    assert not (await harness.leadership.led(TOPIC, 0)).verifications


@pytest.mark.parametrize("refusal", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_a_rejected_verification_appends_nothing(harness: Harness, refusal: ErrorCode) -> None:
    harness.transactions.refusals.append(KafkaError(refusal))
    assert code(await produce(harness, sent(0))) is refusal
    assert (await produce(harness, sent(0))).base_offset == 0


async def test_a_marker_during_verification_repeats_it(harness: Harness) -> None:
    await harness.publish(1)
    harness.transactions.open.clear()
    waiting = asyncio.create_task(produce(harness, sent(0)))
    await eventually(lambda: harness.transactions.requests)
    await mark(harness)
    harness.transactions.open.set()
    assert (await waiting).base_offset == 2
    assert len(harness.transactions.requests) == 2


async def test_an_append_overtaken_repeatedly_is_rejected(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def confirm(*_: object) -> None:
        await mark(harness)

    monkeypatch.setattr(harness.transactions, "confirm", confirm)
    assert code(await produce(harness, sent(0))) is ErrorCode.INVALID_TXN_STATE


async def test_cancelled_caller_does_not_affect_others(harness: Harness) -> None:
    harness.transactions.open.clear()
    first = asyncio.create_task(produce(harness, sent(0)))
    await eventually(lambda: harness.transactions.requests)
    second = asyncio.create_task(produce(harness, sent(0)))
    await asyncio.sleep(0)
    first.cancel()
    harness.transactions.open.set()
    assert (await second).base_offset == 0


async def test_a_relinquished_partition_stops_verifying(harness: Harness) -> None:
    harness.transactions.open.clear()
    waiting = asyncio.create_task(produce(harness, sent(0)))
    await eventually(lambda: harness.transactions.requests)
    await harness.hand_over()
    assert code(await waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("opened", [False, True])
async def test_transactional_batch_requires_a_transactional_id(harness: Harness, opened: bool) -> None:
    if opened:
        await harness.publish(1)
    refused = await produce(harness, sent(0), name="")
    assert code(refused) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("data", [batch(3), sent(0, transactional=False), b"junk"])
async def test_non_transactional_batches_are_not_verified(harness: Harness, data: bytes) -> None:
    await produce(harness, data)
    assert not harness.transactions.requests
