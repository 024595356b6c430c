"""Administration with unmodified clients: librdkafka (confluent-kafka) and kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import admin as python
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from sharebroker_protocol.errors import ErrorCode
from tests.support.client import TIMEOUT, unique
from tests.testkit.brokers import Cluster

T = TypeVar("T")


def done(futures: dict[Any, Future[T]]) -> T:
    """Returns the one result of a request about one resource."""
    (future,) = futures.values()
    return future.result(TIMEOUT)


def code(futures: dict[Any, Future[Any]]) -> int:
    """Returns the error of the one result of a request."""
    with pytest.raises(KafkaException) as caught:
        done(futures)
    return int(caught.value.args[0].code())


@pytest.fixture
def confluent(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.kafka})


@pytest.fixture
def kafka_python(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.kafka)
    yield client
    client.close()


def test_confluent_admin_manages_topics(confluent: AdminClient) -> None:
    name = unique("topic")
    done(confluent.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "9000"})]))
    assert code(confluent.create_topics([NewTopic(name, 2, 1)])) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert code(confluent.create_topics([NewTopic(name + "!", 2, 1)])) == ErrorCode.INVALID_TOPIC_EXCEPTION
    done(confluent.create_topics([NewTopic(unique("topic"), 1, 1)], validate_only=True))
    done(confluent.create_partitions([NewPartitions(name, 3)]))
    assert code(confluent.create_partitions([NewPartitions(name, 3)])) == ErrorCode.INVALID_PARTITIONS
    shown = done(confluent.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert (shown.name, shown.is_internal, len(shown.partitions)) == (name, False, 3)
    assert "ALTER_CONFIGS" in [operation.name for operation in shown.authorized_operations]
    assert name in confluent.list_topics(timeout=TIMEOUT).topics
    ends = confluent.list_offsets({TopicPartition(name, 0): OffsetSpec.latest()})  # type: ignore[no-untyped-call]  # theirs
    assert done(ends).offset == 0
    assert done(confluent.delete_records([TopicPartition(name, 0, 0)])).low_watermark == 0
    done(confluent.delete_topics([name]))
    assert code(confluent.delete_topics([name])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_confluent_admin_describes_the_cluster(confluent: AdminClient) -> None:
    shown = confluent.describe_cluster(include_authorized_operations=True).result(TIMEOUT)
    assert shown.cluster_id
    assert shown.controller.id in [node.id for node in shown.nodes]
    assert "CREATE" in [operation.name for operation in shown.authorized_operations]


def test_confluent_admin_alters_configs(confluent: AdminClient) -> None:
    name = unique("topic")
    done(confluent.create_topics([NewTopic(name, 1, 1)]))
    resource = ConfigResource(ResourceType.TOPIC, name)

    def own() -> dict[str, str]:
        entries = done(confluent.describe_configs([resource])).values()
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {entry.name: entry.value for entry in entries if entry.source == source}

    def change(operation: AlterConfigOpType, key: str, value: str | None) -> dict[Any, Future[Any]]:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        changed = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        return confluent.incremental_alter_configs([changed])

    done(change(AlterConfigOpType.SET, "retention.ms", "5000"))
    assert own() == {"retention.ms": "5000"}
    assert code(change(AlterConfigOpType.SET, "nonsense", "1")) == ErrorCode.INVALID_CONFIG
    replaced = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.ms": "7"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        done(confluent.alter_configs([replaced]))
    assert own() == {"segment.ms": "7"}
    done(change(AlterConfigOpType.DELETE, "segment.ms", None))
    assert own() == {}


def test_confluent_admin_alters_broker_configs(confluent: AdminClient) -> None:
    (node,) = confluent.list_topics(timeout=TIMEOUT).brokers
    broker = done(confluent.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
    assert broker["node.id"].value == str(node)
    assert broker["node.id"].is_read_only


def test_kafka_python_admin_manages_topics(kafka_python: KafkaAdminClient) -> None:
    name = unique("topic")
    wanted = python.NewTopic(name, 2, 1, topic_configs={"retention.ms": "9000"})
    kafka_python.create_topics([wanted])
    with pytest.raises(TopicAlreadyExistsError):
        kafka_python.create_topics([wanted])
    kafka_python.create_partitions({name: python.NewPartitions(3)})
    (shown,) = kafka_python.describe_topics([name])
    paged = kafka_python.describe_topic_partitions([name])["topics"]
    assert [len(one["partitions"]) for one in (shown, *paged)] == [3, 3]
    assert name in kafka_python.list_topics()
    kafka_python.delete_topics([name])
    with pytest.raises(UnknownTopicOrPartitionError):
        kafka_python.delete_topics([name])


def test_kafka_python_admin_alters_configs(kafka_python: KafkaAdminClient) -> None:
    name = unique("topic")
    kafka_python.create_topics([python.NewTopic(name, 1, 1)])

    def own() -> dict[str, str]:
        described = kafka_python.describe_configs([python.ConfigResource("topic", name)])
        return {key: entry["value"] for key, entry in described["topic"][name].items()}

    def changed(**configs: str) -> list[python.ConfigResource]:
        return [
            python.ConfigResource("topic", name, {key.replace("_", "."): configs[key] for key in configs})
        ]

    kafka_python.alter_configs(changed(retention_ms="5000"))
    assert own() == {"retention.ms": "5000"}
    kafka_python.alter_configs(changed(segment_ms="7"), incremental=False)
    assert own()["segment.ms"] == "7"
    kafka_python.reset_configs([python.ConfigResource("topic", name, ["retention.ms"])])
    assert "retention.ms" not in own()
    rejected = kafka_python.alter_configs(changed(retention_ms="soon"))
    assert "Invalid value 'soon' for retention.ms" in str(rejected["topic"][name])


def test_kafka_python_admin_describes_the_cluster(kafka_python: KafkaAdminClient) -> None:
    shown = kafka_python.describe_cluster()
    assert shown["controller_id"] in [broker["broker_id"] for broker in shown["brokers"]]
    features = kafka_python.describe_features()
    assert (features["share.version"]["supported"], features["share.version"]["finalized"]) == (
        (0, 2),
        (2, 2),
    )
    kafka_python.update_features({"share.version": (2, python.UpdateFeatureType.UPGRADE)})
    assert str(shown["brokers"][0]["broker_id"]) in kafka_python.list_config_resources()["broker"]
