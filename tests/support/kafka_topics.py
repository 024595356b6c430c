"""Topics of a real Kafka and their records, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.client import unique
from tests.support.kafka_server import KafkaCluster

SECONDS: Final = 30.0


def create_topic(
    kafka: KafkaCluster, partitions: int = 1, *, copies: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Creates a topic and returns its name."""
    name = unique("topic")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, partitions, copies, config={**(config or {})})])[name].result(SECONDS)
    return name


def produce(kafka: KafkaCluster, topic: str, values: list[bytes], **settings: object) -> None:
    """Produces values to the first partition; `settings` are librdkafka's."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50, **settings})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert not producer.flush(SECONDS)
