"""Folding records: what a trimmed log may begin with, how deletions are remembered, what describe shows."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog import catalog as catalog_module
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.config_views import ConfigSource, describe, describe_settings
from sharebroker_server.catalog.decide import effective_broker
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)
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


def test_changes_of_a_topic_whose_record_was_trimmed_are_of_nothing() -> None:
    state = folded(
        PartitionsRecord("T1", 3), ConfigRecord(TOPIC, "retention.ms", "1"), TopicDeletedRecord("T1")
    )
    assert list(state.topics()) == []
    assert state.configs(TOPIC) == {}
    assert state.is_deleted("T1")
    assert state.position == 3


def test_topic_record_replaces_all_that_was_said_before() -> None:
    state = folded(
        TopicRecord(Topic("T1", "a", 1, {"retention.ms": "1"})),
        ConfigRecord(TOPIC, "retention.ms", "2"),
        TopicRecord(Topic("T1", "a", 5)),
    )
    assert state.topic("a") == Topic("T1", "a", 5)


def test_deletions_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "MAX_DELETED", 2)
    state = folded(*(TopicDeletedRecord(name) for name in ("T1", "T2", "T1", "T3", "T3")))
    assert [name for name in ("T1", "T2", "T3") if state.is_deleted(name)] == ["T1", "T3"]


def test_node_settings_win_over_cluster_settings_over_static_ones() -> None:
    state = folded(
        ConfigRecord(BROKERS, "num.partitions", "4"),
        ConfigRecord(BROKERS, "message.max.bytes", "100"),
        ConfigRecord(BROKER, "num.partitions", "5"),
    )
    effective = effective_broker(state, STATIC)
    assert (effective.num_partitions, effective.message_max_bytes, effective.log_retention_ms) == (5, 100, 77)


def test_cluster_settings_that_contradict_this_process_are_left_out() -> None:
    state = folded(
        ConfigRecord(BROKERS, "group.share.max.size", "900"), ConfigRecord(BROKER, "num.partitions", "5")
    )
    static = BrokerConfig.parse(["node.id=1", "group.share.max.share.sessions=200"])
    assert effective_broker(state, static).group_share_max_size == 200
    assert effective_broker(state, static).num_partitions == 5


def test_unknown_record_is_an_error_of_the_program() -> None:
    with pytest.raises(NotImplementedError):
        TopicCatalog().apply("nonsense", 1)  # type: ignore[arg-type]  # that is the point


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


def test_describe_group_shows_groups_that_do_not_exist_too() -> None:
    state = folded(ConfigRecord(GROUP, "share.auto.offset.reset", "earliest"))
    entries = shown(state, GROUP)
    assert entries.keys() == GROUP_KEYS.keys()
    assert entries["share.auto.offset.reset"] == ("earliest", ConfigSource.GROUP)
    assert entries["share.isolation.level"] == ("read_uncommitted", ConfigSource.DEFAULT)


def test_describe_broker_shows_whose_value_it_is() -> None:
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


def test_describe_says_what_would_be_in_force_without_each_setting() -> None:
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


def test_describe_leaves_out_settings_that_contradict_the_node() -> None:
    state = folded(ConfigRecord(BROKERS, "group.share.max.size", "900"))
    static = BrokerConfig.parse(["node.id=1", "group.share.max.share.sessions=200"])
    (entry,) = (one for one in describe(state, static, BROKER) if one.name == "group.share.max.size")
    assert (entry.value, entry.source) == ("200", ConfigSource.DEFAULT)


def test_describe_settings_of_a_topic_that_is_not_there_yet() -> None:
    entries = describe_settings(TopicCatalog(), STATIC, ResourceType.TOPIC, {"retention.ms": "5"})
    assert {entry.name: entry.value for entry in entries if not entry.is_default} == {"retention.ms": "5"}


def test_describe_says_what_is_default_and_refuses_unknown_topics() -> None:
    entries = describe(folded(ConfigRecord(GROUP, "share.auto.offset.reset", "earliest")), STATIC, GROUP)
    assert [entry.name for entry in entries if not entry.is_default] == ["share.auto.offset.reset"]
    with pytest.raises(KafkaError) as caught:
        describe(TopicCatalog(), STATIC, TOPIC)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
