"""ReadRange: record batches by offset."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.config import MAX_READ_RANGE_BYTES, READ_RANGE_BYTES
from sharebroker_server.gateway.plan.read_range import read_range
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, refusing
from tests.unit.record_log.batches import batch


def request(first: int = 0, last: int = 9, **fields: Any) -> pb.ReadRangeRequest:
    span = pb.PlanRange(topic=TOPIC.name, partition=1, first_offset=first, last_offset=last)
    return pb.ReadRangeRequest(range=span, **fields)


async def test_range_is_read_from_its_first_offset(harness: Harness) -> None:
    records = batch(4)

    def answer(sent: leader.FetchRequest) -> leader.FetchResponse:
        (part,) = sent.partitions
        assert (part.fetch_offset, part.partition_max_bytes) == (0, READ_RANGE_BYTES)
        return leader.FetchResponse(
            partitions=[leader.FetchResponse.Partition(topic_id=part.topic_id, partition=1, records=records)]
        )

    harness.leader.answer = answer
    response = await read_range(harness.gateway, request())
    assert (response.record_batches, response.next_offset) == (records, 4)


async def test_error_of_the_partition_is_raised(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(KafkaError) as failure:
        await read_range(harness.gateway, request())
    assert failure.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "invalid", [request(-1, 3), request(4, 3), request(max_bytes=MAX_READ_RANGE_BYTES + 1)]
)
async def test_invalid_ranges_are_rejected(harness: Harness, invalid: pb.ReadRangeRequest) -> None:
    with pytest.raises(KafkaError) as failure:
        await read_range(harness.gateway, invalid)
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    assert harness.leader.asked == []
