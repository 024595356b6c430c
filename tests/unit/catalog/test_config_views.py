"""Configs in the form of DescribeConfigs."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.config_views import ConfigSource, describe, describe_settings
from sharebroker_server.catalog.records import CatalogRecord, ClusterRecord, ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.group import GROUP_KEYS
from sharebroker_server.config.topic import TOPIC_KEYS

STATIC = BrokerConfig.parse(["node.id=1", "num.partitions=3", "log.retention.ms=77"])


TOPIC = ConfigResource(ResourceType.TOPIC, "a")


GROUP = ConfigResource(ResourceType.GROUP, "g")


BROKERS = ConfigResource(ResourceType.BROKER, "")


BROKER = ConfigResource(ResourceType.BROKER, "1")


def folded(*records: CatalogRecord) -> TopicCatalog:
    state = TopicCatalog()
    for position, record in enumerate(records, 1):
        state.apply(record, position)
    return state


def shown(state: TopicCatalog, resource: ConfigResource) -> dict[str, tuple[str, ConfigSource]]:
    return {entry.name: (entry.value, entry.source) for entry in describe(state, STATIC, resource)}


def test_describe_topic_shows_own_inherited_and_default_values() -> None:
    state = folded(TopicRecord(Topic("T1", "a", 1, {"max.message.bytes": "9"})))
    entries = shown(state, TOPIC)
    assert entries.keys() == TOPIC_KEYS.keys()
    assert entries["max.message.bytes"] == ("9", ConfigSource.TOPIC)
    assert entries["retention.ms"] == ("77", ConfigSource.STATIC_BROKER)
    assert entries["retention.bytes"] == ("-1", ConfigSource.DEFAULT)
    assert entries["preallocate"] == ("false", ConfigSource.DEFAULT)


def test_describe_group_includes_missing_groups() -> None:
    state = folded(ConfigRecord(GROUP, "share.auto.offset.reset", "earliest"))
    entries = shown(state, GROUP)
    assert entries.keys() == GROUP_KEYS.keys()
    assert entries["share.auto.offset.reset"] == ("earliest", ConfigSource.GROUP)
    assert entries["share.isolation.level"] == ("read_uncommitted", ConfigSource.DEFAULT)


def test_describe_broker_shows_the_source_of_values() -> None:
    state = folded(
        ConfigRecord(BROKERS, "num.partitions", "4"),
        ConfigRecord(BROKERS, "message.max.bytes", "100"),
        ConfigRecord(BROKER, "num.partitions", "5"),
        ClusterRecord("c"),
    )
    assert shown(state, BROKERS) == {
        "num.partitions": ("4", ConfigSource.ALL_BROKERS),
        "message.max.bytes": ("100", ConfigSource.ALL_BROKERS),
    }
    entries = shown(state, BROKER)
    assert entries.keys() == BROKER_KEYS.keys()
    assert entries["num.partitions"] == ("5", ConfigSource.BROKER)
    assert entries["message.max.bytes"] == ("100", ConfigSource.ALL_BROKERS)
    assert entries["log.retention.ms"] == ("77", ConfigSource.STATIC_BROKER)
    assert entries["node.id"] == ("1", ConfigSource.STATIC_BROKER)


def test_describe_lists_fallback_values() -> None:
    state = folded(
        TopicRecord(Topic("T1", "a", 1, {"max.message.bytes": "9", "segment.ms": "5"})),
        ConfigRecord(BROKERS, "message.max.bytes", "100"),
        ConfigRecord(BROKER, "message.max.bytes", "200"),
    )
    entries = {entry.name: entry for entry in describe(state, STATIC, TOPIC)}
    default = str(BROKER_KEYS["message.max.bytes"].default)
    assert [(one.name, one.value, one.source.name) for one in entries["max.message.bytes"].origins] == [
        ("max.message.bytes", "9", "TOPIC"),
        ("message.max.bytes", "200", "BROKER"),
        ("message.max.bytes", "100", "ALL_BROKERS"),
        ("message.max.bytes", default, "DEFAULT"),
    ]
    assert [one.source.name for one in entries["retention.ms"].origins] == ["STATIC_BROKER", "DEFAULT"]
    assert [one.source.name for one in entries["segment.ms"].origins] == ["TOPIC", "DEFAULT"]


def test_describe_omits_configs_that_contradict_the_node() -> None:
    state = folded(ConfigRecord(BROKERS, "group.share.max.size", "900"))
    static = BrokerConfig.parse(["node.id=1", "group.share.max.share.sessions=200"])
    (entry,) = (one for one in describe(state, static, BROKER) if one.name == "group.share.max.size")
    assert (entry.value, entry.source) == ("200", ConfigSource.DEFAULT)


def test_describe_a_topic_missing_from_the_cache() -> None:
    entries = describe_settings(TopicCatalog(), STATIC, ResourceType.TOPIC, {"retention.ms": "5"})
    assert {entry.name: entry.value for entry in entries if not entry.is_default} == {"retention.ms": "5"}


def test_describe_marks_defaults_and_rejects_unknown_topics() -> None:
    entries = describe(folded(ConfigRecord(GROUP, "share.auto.offset.reset", "earliest")), STATIC, GROUP)
    assert [entry.name for entry in entries if not entry.is_default] == ["share.auto.offset.reset"]
    with pytest.raises(KafkaError) as caught:
        describe(TopicCatalog(), STATIC, TOPIC)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
