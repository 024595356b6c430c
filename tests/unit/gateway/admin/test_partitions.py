"""Requests about partitions: each leader receives its partitions once."""

from __future__ import annotations

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.admin.partitions import describe_producers
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC


async def test_describe_producers_calls_the_leaders(harness: Harness) -> None:
    parts = [TopicPartition(topic_id=TOPIC.topic_id, partition=n) for n in (1, 0)]
    described = await describe_producers(harness.gateway, parts, Deadline(5))
    assert [one.partition for one in described] == [1, 0]
    assert len(harness.leader.of(leader.DescribeProducersRequest)) == 1
