"""RPCs of logs: each partition has its own result or error."""

from __future__ import annotations

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.unit.share_partition_leader.harness import TOPIC, Harness


async def test_each_partition_has_its_own_offset_or_error(harness: Harness) -> None:
    await harness.publish(3)
    request = pb.ListOffsetsRequest()
    for topic in (TOPIC, "unknown"):
        request.partitions.add(topic_id=topic, partition=0, timestamp=-1)
    known, unknown = (await harness.stub.ListOffsets(request)).partitions
    assert (known.topic_id, known.error_code, known.offset) == (TOPIC, 0, 3)
    assert unknown.topic_id == "unknown"
    assert unknown.error_code
