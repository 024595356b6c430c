"""Legal names of topics and groups (Kafka: Topic.validate), ids of topics, and the internal topics."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.config_views import ConfigSource, describe
from sharebroker_server.catalog.machine import (
    AlterConfigs,
    CatalogCommand,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    decide,
)
from sharebroker_server.catalog.topics import (
    GROUP_ID_BYTES,
    INTERNAL_TOPIC_IDS,
    MAX_LENGTH,
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_ID,
    STATE_TOPIC,
    STATE_TOPIC_ID,
    ConfigResource,
    ResourceType,
    check_group_id,
    check_not_internal,
    check_topic_name,
    internal_partitions,
    internal_topic,
    new_topic_id,
    partition_count,
    topic_id_text,
)
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.kafka_wire.schema import id_bytes


@pytest.mark.parametrize("name", ["a", "a.b_c-1", "A" * MAX_LENGTH])
def test_legal_topic_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a/b", "A" * (MAX_LENGTH + 1)])
def test_illegal_topic_name_is_rejected_with_its_field(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_name(name, "topic")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [violation.field for violation in caught.value.violations] == ["topic"]


def test_longest_group_id_is_accepted() -> None:
    check_group_id("g" * GROUP_ID_BYTES)


@pytest.mark.parametrize("group_id", ["", "g" * (GROUP_ID_BYTES + 1), "é" * (GROUP_ID_BYTES // 2 + 1)])
def test_empty_or_long_group_id_is_rejected(group_id: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)
    assert caught.value.code is ErrorCode.INVALID_GROUP_ID


def test_topic_ids_are_kafkas_text() -> None:
    raw = bytes(range(16))
    assert topic_id_text(raw) == "AAECAwQFBgcICQoLDA0ODw"
    drawn = new_topic_id()
    assert len(drawn) == 22
    assert not drawn.startswith("-")
    assert topic_id_text(id_bytes(drawn)) == drawn


RESOURCE = ConfigResource(ResourceType.TOPIC, STATE_TOPIC)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (CreateTopic(STATE_TOPIC, "T1", 4), ErrorCode.TOPIC_ALREADY_EXISTS),
        (CreateTopic(OFFSETS_TOPIC, "T1", 4), ErrorCode.TOPIC_ALREADY_EXISTS),
        (DeleteTopic(name=STATE_TOPIC), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (DeleteTopic(topic_id=STATE_TOPIC_ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (DeleteTopic(topic_id=OFFSETS_TOPIC_ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatePartitions(STATE_TOPIC, 99), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatePartitions(OFFSETS_TOPIC, 99), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (AlterConfigs(RESOURCE, {"retention.ms": "1"}), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_internal_topics_cannot_be_changed(command: CatalogCommand, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        decide(TopicCatalog(), BrokerConfig(), command, 0.0)
    assert refused.value.code is code


def test_internal_topic_ids_are_fixed_version_5_uuids() -> None:
    assert {id_bytes(topic_id)[6] >> 4 for topic_id in INTERNAL_TOPIC_IDS.values()} == {5}
    assert [internal_topic(name, BrokerConfig()).topic_id for name in INTERNAL_TOPIC_IDS] == [
        *INTERNAL_TOPIC_IDS.values()
    ]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (STATE_TOPIC, {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"}),
        (
            OFFSETS_TOPIC,
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
        ),
    ],
)
def test_internal_topic_configs_are_kafkas(name: str, settings: dict[str, str]) -> None:
    resource = ConfigResource(ResourceType.TOPIC, name)
    set_ = {
        entry.name: entry.value
        for entry in describe(TopicCatalog(), BrokerConfig(), resource)
        if entry.source is ConfigSource.TOPIC
    }
    assert set_ == settings
    assert internal_topic(name, BrokerConfig()).configs == settings


def test_internal_topic_has_a_partition_for_each_shard() -> None:
    config = BrokerConfig.parse(
        ["offsets.topic.num.partitions=3", "share.coordinator.state.topic.num.partitions=4"]
    )
    assert internal_topic(OFFSETS_TOPIC, config).partitions == 3
    assert internal_topic(STATE_TOPIC, config).partitions == 4


def test_other_topics_are_not_internal() -> None:
    check_not_internal("__share_group_state_2", "T1")
    check_not_internal("orders")


def test_partitions_of_internal_topics_are_the_coordinators_shards() -> None:
    internal = internal_partitions(BrokerConfig.parse(["offsets.topic.num.partitions=7"]))
    assert partition_count(internal, {"T1": 3}.__getitem__, OFFSETS_TOPIC_ID) == 7
    assert partition_count(internal, {"T1": 3}.__getitem__, "T1") == 3
