"""Topics as plain values."""

from __future__ import annotations

from sharebroker.admin_model import TopicDescription
from sharebroker.cli.commands.topics import partition_row, topic_row
from sharebroker_protocol.model import TopicPartition


def test_topic_is_listed_with_its_partitions() -> None:
    topic = TopicDescription("orders", "x" * 22, 2, {"b": "2", "a": "1"})
    assert topic_row(topic) == {
        "name": "orders",
        "topic_id": "x" * 22,
        "partitions": 2,
        "configs": {"a": "1", "b": "2"},
    }
    place = TopicPartition("orders", 0)
    assert partition_row(place, {place: 10}, {place: 15}) == {
        "partition": 0,
        "start_offset": 10,
        "end_offset": 15,
        "records": 5,
    }
    assert partition_row(place, {place: None}, {place: 15})["records"] is None
