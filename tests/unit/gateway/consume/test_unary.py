"""Unary consumers: how share state comes to exist for them, and what leaders are asked."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_ACCEPT as ACCEPT
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_RELEASE as RELEASE
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.records.batch_builder import BatchBuilder
from sharebroker_protocol.records.compression import CODECS
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.testkit.waiting import eventually
from tests.unit.gateway.conftest import Bench
from tests.unit.gateway.fakes import Leader, refusing


def request(**fields: Any) -> pb.AcquireRequest:
    return pb.AcquireRequest(**{"group_id": "group", "topics": ["flights"]} | fields)


def one_record(request: Any) -> Any:
    """Partition 0 has two acquired offsets and one record."""
    response = Leader.all_is_well(request)
    if isinstance(request, leader.AcquireRecordsRequest):
        builder = BatchBuilder(CODECS["none"], 1000)
        builder.append(0, b"key", b"value")
        (part,) = [part for part in response.partitions if part.partition == 0]
        part.record_batches = builder.build()
        part.acquired.add(first_offset=0, last_offset=1, delivery_count=1, lock_token=7)
    return response


async def test_the_state_is_initialised_once_and_nobody_stays_in_the_group(bench: Bench) -> None:
    bench.leader.answer = one_record
    await asyncio.gather(*(bench.share.Acquire(request()) for _ in range(3)))
    await eventually(lambda: bench.coordinator.epochs() == [0, -1])
    await bench.share.Acquire(request())
    assert bench.coordinator.epochs() == [0, -1]
    joined = bench.coordinator.heartbeats[0]
    assert list(joined.subscribed_topic_names.names) == ["flights"]


async def test_it_waits_until_the_state_exists(bench: Bench) -> None:
    bench.coordinator.partitions = []
    call = asyncio.ensure_future(bench.share.Acquire(request()))
    await eventually(lambda: len(bench.coordinator.heartbeats) > 2)
    assert not bench.leader.asked
    bench.coordinator.partitions = [0]
    assert not (await call).records
    await eventually(lambda: bench.coordinator.epochs()[-1] == -1)


async def test_who_has_more_time_waits_longer_for_the_same_state(bench: Bench) -> None:
    bench.coordinator.partitions = []
    hasty = asyncio.ensure_future(bench.share.Acquire(request(), timeout=0.3))
    await eventually(lambda: bench.coordinator.heartbeats)
    patient = asyncio.ensure_future(bench.share.Acquire(request(member_id="me"), timeout=20))
    await asyncio.wait([hasty])
    seen = len(bench.coordinator.heartbeats)
    await eventually(lambda: len(bench.coordinator.heartbeats) > seen)
    assert not [asked for asked in bench.leader.of(leader.AcquireRecordsRequest) if asked.member_id == "me"]
    bench.coordinator.partitions = [0]
    assert not (await patient).records
    assert bench.coordinator.epochs().count(0) == 1
    with contextlib.suppress(grpc.aio.AioRpcError):
        await hasty


async def test_every_partition_is_asked_another_one_first_each_time(bench: Bench) -> None:
    for _ in range(3):
        await bench.share.Acquire(request(member_id="me", max_records=3))
    asked = bench.leader.of(leader.AcquireRecordsRequest)
    assert [[part.partition for part in one.partitions] for one in asked] == [[0, 1], [1, 0], [0, 1]]
    assert {(one.member_id, one.max_records, one.acquire_mode) for one in asked} == {("me", 3, 1)}


@pytest.mark.parametrize("code", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_state_that_may_be_gone_is_initialised_again(bench: Bench, code: ErrorCode) -> None:
    bench.leader.answer = one_record
    await bench.share.Acquire(request())
    bench.leader.answer = refusing(code)
    before = len(bench.coordinator.heartbeats)

    async def initialised() -> None:
        await eventually(lambda: len(bench.coordinator.heartbeats) > before)
        bench.leader.answer = one_record

    got, _ = await asyncio.gather(bench.share.Acquire(request(max_wait_ms=5_000)), initialised())
    assert [record.value for record in got.records] == [b"value"]


async def test_any_other_refusal_says_nothing_about_the_state(bench: Bench) -> None:
    """A group whose members come and go without need has its partitions assigned anew each time."""
    bench.leader.answer = one_record
    await bench.share.Acquire(request())
    await eventually(lambda: bench.coordinator.epochs() == [0, -1])
    bench.leader.answer = refusing(ErrorCode.OFFSET_NOT_AVAILABLE)
    before = len(bench.leader.asked)

    async def asked_again() -> None:
        await eventually(lambda: len(bench.leader.asked) > before + 1)
        bench.leader.answer = one_record

    got, _ = await asyncio.gather(bench.share.Acquire(request(max_wait_ms=5_000)), asked_again())
    assert [record.value for record in got.records] == [b"value"]
    assert bench.coordinator.epochs() == [0, -1]


async def test_stopping_waits_for_a_member_that_is_about_to_leave(bench: Bench) -> None:
    bench.coordinator.partitions = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        await bench.share.Acquire(request(), timeout=1.0)
    assert bench.coordinator.epochs()[-1] != -1
    stopping = asyncio.ensure_future(bench.gateway.stop())
    await asyncio.wait([stopping], timeout=0.1)
    bench.coordinator.partitions = [0]
    await stopping
    assert bench.coordinator.epochs()[-1] == -1


async def test_a_refusal_that_stays_is_the_callers(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await bench.share.Acquire(request())
    assert from_rpc_error(failure.value).code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_offsets_without_a_record_are_given_back(bench: Bench) -> None:
    bench.leader.answer = one_record
    got = await bench.share.Acquire(request())
    assert [(record.offset, record.key, record.lock_token) for record in got.records] == [(0, b"key", 7)]
    await eventually(lambda: bench.leader.of(leader.AcknowledgeRecordsRequest))
    (gap,) = bench.leader.of(leader.AcknowledgeRecordsRequest)[0].partitions[0].batches
    assert (gap.first_offset, gap.last_offset, list(gap.acknowledge_types)) == (1, 1, [0])


async def test_a_group_that_takes_nobody_is_the_callers_affair(bench: Bench) -> None:
    bench.coordinator.refusals = [KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await bench.share.Acquire(request())
    assert from_rpc_error(failure.value).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await bench.share.Acquire(request())).member_id  # the next one tries again


async def test_each_decision_is_a_partition_of_its_own(bench: Bench) -> None:
    decisions = [
        pb.AcknowledgeRequest.Decision(topic="flights", offset=offset, lock_token=7, type=ACCEPT)
        for offset in (3, 4)
    ]
    asked = pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=decisions)
    assert [result.offset for result in (await bench.share.Acknowledge(asked)).results] == [3, 4]
    (applied,) = bench.leader.of(leader.AcknowledgeRecordsRequest)
    assert [[b.first_offset for b in part.batches] for part in applied.partitions] == [[3], [4]]


async def test_a_delay_reaches_the_leader(bench: Bench) -> None:
    decision = pb.AcknowledgeRequest.Decision(topic="flights", offset=3, type=RELEASE, delay_ms=5000)
    await bench.share.Acknowledge(
        pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=[decision])
    )
    (applied,) = bench.leader.of(leader.AcknowledgeRecordsRequest)
    assert [part.delay_ms for part in applied.partitions] == [5000]
