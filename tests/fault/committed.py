"""Reads the committed records of a topic with librdkafka."""

from __future__ import annotations

from time import monotonic

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.support.client import TIMEOUT


def read(address: str, topic: str, partitions: int) -> list[tuple[int, str]]:
    """Returns the partition and value of every committed record."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found, ended, deadline = [], 0, monotonic() + 3 * TIMEOUT
        while ended < partitions and monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is not None:
                ended += error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            else:
                found.append((message.partition() or 0, (message.value() or b"").decode()))
        assert ended == partitions
        return found
    finally:
        consumer.close()
