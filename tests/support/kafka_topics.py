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
    return create_topic_at(kafka.bootstrap, partitions, copies=copies, config=config)


def create_topic_at(
    bootstrap: str, partitions: int = 1, *, copies: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Creates a topic in the cluster with these bootstrap addresses; returns its name."""
    name = unique("topic")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, copies, config={**(config or {})})])[name].result(SECONDS)
    return name


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Returns the end offset of each partition of a topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": unique("group")})
    try:
        partitions = consumer.list_topics(topic, SECONDS).topics[topic].partitions
        places = {number: confluent_kafka.TopicPartition(topic, number) for number in partitions}
        return {number: consumer.get_watermark_offsets(place, SECONDS)[1] for number, place in places.items()}
    finally:
        consumer.close()


def produce(kafka: KafkaCluster, topic: str, values: list[bytes], **settings: object) -> None:
    """Produces values to the first partition; `settings` are librdkafka's."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50, **settings})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert not producer.flush(SECONDS)
