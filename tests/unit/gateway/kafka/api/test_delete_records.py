"""DeleteRecords: each partition has its own result."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.kafka_wire.messages import DeleteRecordsRequest, DeleteRecordsResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

Partition = DeleteRecordsRequest.DeleteRecordsPartition


def request() -> DeleteRecordsRequest:
    named = [(TOPIC.name, [0, 7]), ("unknown", [0]), (OFFSETS_TOPIC, [1])]
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=name, partitions=[Partition(partition_index=index, offset=40) for index in indexes]
            )
            for name, indexes in named
        ]
    )


def results(response: DeleteRecordsResponse) -> dict[str, list[tuple[int, int, int]]]:
    return {
        topic.name: [(one.partition_index, one.low_watermark, one.error_code) for one in topic.partitions]
        for topic in response.topics
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_each_partition_has_its_own_result(harness: Harness, version: int) -> None:
    harness.services.reply_each("DeleteRecords", pb.DeleteRecordsResponse, low_watermark=40)
    response = await harness.call(version, request(), DeleteRecordsResponse)
    assert results(response) == {
        TOPIC.name: [(0, 40, 0), (7, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        "unknown": [(0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        OFFSETS_TOPIC: [(1, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)],
    }
    (sent,) = harness.services.only("DeleteRecords").partitions
    assert (sent.topic_id, sent.partition, sent.offset) == (TOPIC.topic_id, 0, 40)


async def test_partitions_of_another_leader_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(2, request(), DeleteRecordsResponse)
    assert results(response)[TOPIC.name][0] == (0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
