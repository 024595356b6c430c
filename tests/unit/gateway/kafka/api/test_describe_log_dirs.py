"""DescribeLogDirs: the sizes of partitions in one directory."""

from __future__ import annotations

import pytest

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.kafka_wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def sizes(response: DescribeLogDirsResponse) -> dict[str, dict[int, int]]:
    (result,) = response.results
    assert result.log_dir == "redis"
    return {
        topic.name: {one.partition_index: one.partition_size for one in topic.partitions}
        for topic in result.topics
    }


@pytest.mark.parametrize("version", [1, 5])
async def test_null_means_all_partitions(harness: Harness, version: int) -> None:
    harness.services.reply_each("DescribeLogs", pb.DescribeLogsResponse, size=700)
    request = DescribeLogDirsRequest(topics=None)
    response = await harness.call(version, request, DescribeLogDirsResponse)
    assert sizes(response) == {TOPIC.name: {0: 700, 1: 700}}


async def test_unknown_partitions_are_omitted(harness: Harness) -> None:
    harness.services.reply_each("DescribeLogs", pb.DescribeLogsResponse, size=700)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = [topic(topic=TOPIC.name, partitions=[1, 1, 9]), topic(topic="unknown", partitions=[0])]
    response = await harness.call(4, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
    assert sizes(response) == {TOPIC.name: {1: 700}}
    assert len(harness.services.only("DescribeLogs").partitions) == 1


async def test_partitions_of_other_leaders_are_omitted(harness: Harness) -> None:
    harness.lead_elsewhere()
    request = DescribeLogDirsRequest(topics=None)
    assert sizes(await harness.call(4, request, DescribeLogDirsResponse)) == {}
