"""The gRPC service of the leader: validation, and translation of messages."""

from __future__ import annotations

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.unit.share_partition_leader.harness import GROUP, TOPIC, Harness


async def test_unknown_acquire_mode_is_rejected(harness: Harness) -> None:
    request = pb.AcquireRecordsRequest(group_id=GROUP, member_id="m", acquire_mode=9)  # type: ignore[arg-type]
    with pytest.raises(KafkaError) as failure:
        await harness.stub.AcquireRecords(request)
    assert failure.value.code is ErrorCode.INVALID_REQUEST


async def test_released_member_loses_its_locks(harness: Harness) -> None:
    await harness.publish(3)
    await harness.acquire(member="m1")
    part = delivery.TopicPartition(topic_id=TOPIC, partition=0)
    request = pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", partitions=[part])
    assert (await harness.stub.ReleaseMember(request)).released == 1
    (again,) = await harness.acquire(member="m2", max_wait_ms=5_000)
    assert [(run.first_offset, run.last_offset) for run in again.acquired] == [(0, 2)]
