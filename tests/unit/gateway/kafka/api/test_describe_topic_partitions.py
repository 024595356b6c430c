"""DescribeTopicPartitions: pages of partitions, and errors per topic."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def request(
    *names: str, limit: int = 100, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    topics = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
    at = cursor and DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at or None)


async def test_topics_are_described_by_name(harness: Harness) -> None:
    response = await harness.call(0, request(TOPIC.name, "unknown"), DescribeTopicPartitionsResponse)
    found, unknown = response.topics
    assert (found.name, found.topic_id, found.is_internal) == (TOPIC.name, TOPIC.topic_id, False)
    assert [(one.partition_index, one.leader_id, one.leader_epoch) for one in found.partitions] == [
        (0, 1, 3),
        (1, 1, 3),
    ]
    assert found.partitions[0].replica_nodes == found.partitions[0].isr_nodes == [1]
    assert found.topic_authorized_operations > 0
    assert (unknown.name, unknown.error_code) == ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert response.next_cursor is None


async def test_a_cursor_continues_the_page(harness: Harness) -> None:
    first = await harness.call(0, request(TOPIC.name, limit=1), DescribeTopicPartitionsResponse)
    assert [one.partition_index for one in first.topics[0].partitions] == [0]
    assert first.next_cursor is not None
    cursor = (first.next_cursor.topic_name, first.next_cursor.partition_index)
    second = await harness.call(0, request(TOPIC.name, cursor=cursor), DescribeTopicPartitionsResponse)
    assert [one.partition_index for one in second.topics[0].partitions] == [1]


async def test_a_request_without_names_describes_all_topics(harness: Harness) -> None:
    response = await harness.call(0, request(limit=2000), DescribeTopicPartitionsResponse)
    assert {TOPIC.name, "__consumer_offsets"} <= {one.name for one in response.topics}


async def test_an_invalid_cursor_fails_each_topic(harness: Harness) -> None:
    response = await harness.call(0, request("a", cursor=("a", -1)), DescribeTopicPartitionsResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("a", ErrorCode.INVALID_REQUEST)]
