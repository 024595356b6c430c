"""Unary consumers: when their share state is initialised, and their requests to leaders."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from sharebroker_protocol.clock import now
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_ACCEPT as ACCEPT
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_REJECT
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_RELEASE as RELEASE
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_RENEW as RENEW
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.consume.topic_acquire import MAX_ACQUIRE_BYTES
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.unary_requests import one_record, request
from tests.unit.gateway.fakes import Leader


async def test_unreadable_offsets_are_acknowledged_as_gaps(harness: Harness) -> None:
    harness.leader.answer = one_record
    got = await harness.share.Acquire(request())
    assert [(record.offset, record.key, record.lock_token) for record in got.records] == [(0, b"key", 7)]
    await eventually(lambda: harness.leader.of(leader.AcknowledgeRecordsRequest))
    (gap,) = harness.leader.of(leader.AcknowledgeRecordsRequest)[0].partitions[0].batches
    assert (gap.first_offset, gap.last_offset, list(gap.acknowledge_types)) == (1, 1, [0])


async def test_a_response_has_a_limited_number_of_bytes(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    large = b"x" * MAX_ACQUIRE_BYTES

    def answer(request: leader.AcquireRecordsRequest) -> Any:
        response = Leader.all_is_well(request)
        builder = BatchBuilder(CODECS["none"], 2 * len(large))
        builder.append(0, b"key", large)
        response.partitions[0].record_batches = builder.build()
        response.partitions[0].acquired.add(delivery_count=1, lock_token=7)
        return response

    harness.leader.answer = other.answer = answer
    got = await harness.share.Acquire(request(max_records=10))
    assert [len(record.value) for record in got.records] == [len(large)]
    (sent,) = (*harness.leader.of(leader.AcquireRecordsRequest), *other.of(leader.AcquireRecordsRequest))
    assert sent.max_bytes == MAX_ACQUIRE_BYTES


async def test_records_that_do_not_fit_decoded_are_returned(harness: Harness) -> None:
    def answer(request: Any) -> Any:
        response = Leader.all_is_well(request)
        if isinstance(request, leader.AcquireRecordsRequest):
            builder = BatchBuilder(CODECS["gzip"], 16 << 20)
            for _ in range(10):
                builder.append(0, None, bytes(1 << 20))
            for part in response.partitions:
                part.record_batches = builder.build()
                part.acquired.add(first_offset=0, last_offset=9, delivery_count=1, lock_token=7)
        return response

    harness.leader.answer = answer
    got = await harness.share.Acquire(request(max_records=1000))  # within the 4 MiB of a client
    assert [record.offset for record in got.records] == [0, 1, 2]
    await eventually(lambda: harness.leader.of(leader.AcknowledgeRecordsRequest))
    part, *_ = harness.leader.of(leader.AcknowledgeRecordsRequest)[0].partitions
    (batch,) = part.batches
    assert (batch.first_offset, batch.last_offset, list(batch.acknowledge_types)) == (3, 9, [RELEASE])
    assert (part.blameless, part.HasField("delay_ms"), part.delay_ms) == (True, True, 0)


async def test_each_acknowledgement_has_its_own_result(harness: Harness) -> None:
    decisions = [
        pb.AcknowledgeRequest.Decision(topic="flights", offset=offset, lock_token=7, type=ACCEPT)
        for offset in (3, 4)
    ]
    acknowledge = pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=decisions)
    assert [result.offset for result in (await harness.share.Acknowledge(acknowledge)).results] == [3, 4]
    (applied,) = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert [[b.first_offset for b in part.batches] for part in applied.partitions] == [[3], [4]]


async def test_many_acknowledgements_are_sent_in_portions(harness: Harness) -> None:
    decisions = [
        pb.AcknowledgeRequest.Decision(topic="flights", offset=offset, lock_token=7, type=ACCEPT)
        for offset in range(600)
    ]
    acknowledge = pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=decisions)
    results = (await harness.share.Acknowledge(acknowledge)).results
    assert [result.offset for result in results] == [*range(600)]
    applied = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert [len(sent.partitions) for sent in applied] == [250, 250, 100]


async def test_release_delay_is_sent_to_the_leader(harness: Harness) -> None:
    decision = pb.AcknowledgeRequest.Decision(topic="flights", offset=3, type=RELEASE, delay_ms=5000)
    await harness.share.Acknowledge(
        pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=[decision])
    )
    (applied,) = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert [part.delay_ms for part in applied.partitions] == [5000]


def _acknowledge(**fields: Any) -> pb.AcknowledgeRequest:
    decision = pb.AcknowledgeRequest.Decision(topic="flights", offset=3, lock_token=7, **fields)
    return pb.AcknowledgeRequest(group_id="group", member_id="me", acknowledgements=[decision])


async def test_lock_lengths_are_sent_to_the_leader(harness: Harness) -> None:
    harness.leader.answer = one_record
    await harness.share.Acquire(request(lock_ms=60_000))
    assert {sent.lock_ms for sent in harness.leader.of(leader.AcquireRecordsRequest)} == {60_000}
    harness.leader.answer = Leader.all_is_well
    (result,) = (await harness.share.Acknowledge(_acknowledge(type=RENEW, lock_ms=3_600_000))).results
    applied = harness.leader.of(leader.AcknowledgeRecordsRequest)[-1]
    assert [part.lock_ms for part in applied.partitions] == [3_600_000]
    assert result.lock_deadline_ms / 1000 == pytest.approx(now() + 3600, abs=60)


@pytest.mark.parametrize(
    ("kind", "lock_ms", "text"),
    [
        (RENEW, 999, r"acknowledgements\[0\].lock_ms is 999; 1000 to 43200000 is allowed"),
        (RENEW, 43_200_001, "lock_ms is 43200001; 1000 to 43200000 is allowed"),
        (ACCEPT, 60_000, "lock_ms is for RENEW only"),
    ],
)
async def test_invalid_lock_lengths_are_refused(harness: Harness, kind: Any, lock_ms: int, text: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=text) as refused:
        await harness.share.Acknowledge(_acknowledge(type=kind, lock_ms=lock_ms))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.aio.AioRpcError, match="lock_ms is 999; 1000 to 43200000 is allowed"):
        await harness.share.Acquire(request(lock_ms=999))


async def test_the_reason_is_sent_to_the_leader(harness: Harness) -> None:
    await harness.share.Acknowledge(_acknowledge(type=ACKNOWLEDGE_TYPE_REJECT, reason="é" * 300))
    (applied,) = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert [part.reason for part in applied.partitions] == ["é" * 256]


async def test_blameless_releases_are_sent_to_the_leader(harness: Harness) -> None:
    await harness.share.Acknowledge(_acknowledge(type=RELEASE, blameless=True, delay_ms=100))
    (applied,) = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert [(part.blameless, part.delay_ms) for part in applied.partitions] == [(True, 100)]
    with pytest.raises(grpc.aio.AioRpcError, match="blameless is for RELEASE only"):
        await harness.share.Acknowledge(_acknowledge(type=ACCEPT, blameless=True))
