"""A shard's log in Kafka's format: offsets beyond its end, and the end by time."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as log_pb
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker


async def test_reading_beyond_the_end_is_rejected(broker: Broker) -> None:
    find = log_pb.FindShareGroupStateOffsetRequest(shard=0, timestamp=-1)
    end = (await broker.until(lambda: broker.groups.FindGroupLogOffset(find, CONTEXT))).offset
    request = log_pb.FetchShareGroupStateRequest(shard=0, fetch_offset=end, max_bytes=1000)
    assert not (await broker.groups.FetchGroupLog(request, CONTEXT)).record_batches
    request.fetch_offset = end + 1
    with pytest.raises(KafkaError) as rejected:
        await broker.groups.FetchGroupLog(request, CONTEXT)
    assert rejected.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
