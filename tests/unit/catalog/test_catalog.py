"""Catalog replay: the first records of a trimmed log, stored deletions, the described configs."""

from __future__ import annotations

import pytest

from sharebroker_server.catalog import catalog as catalog_module
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.machine import effective_broker
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig

STATIC = BrokerConfig.parse(["node.id=1", "num.partitions=3", "log.retention.ms=77"])


TOPIC = ConfigResource(ResourceType.TOPIC, "a")


BROKERS = ConfigResource(ResourceType.BROKER, "")


BROKER = ConfigResource(ResourceType.BROKER, "1")


def folded(*records: CatalogRecord) -> TopicCatalog:
    state = TopicCatalog()
    for position, record in enumerate(records, 1):
        state.apply(record, position)
    return state


def test_changes_of_a_trimmed_topic_are_ignored() -> None:
    state = folded(
        PartitionsRecord("T1", 3), ConfigRecord(TOPIC, "retention.ms", "1"), TopicDeletedRecord("T1")
    )
    assert list(state.topics()) == []
    assert state.configs(TOPIC) == {}
    assert state.is_deleted("T1")
    assert state.position == 3


def test_topic_record_replaces_earlier_records() -> None:
    state = folded(
        TopicRecord(Topic("T1", "a", 1, {"retention.ms": "1"})),
        ConfigRecord(TOPIC, "retention.ms", "2"),
        TopicRecord(Topic("T1", "a", 5)),
    )
    assert state.topic("a") == Topic("T1", "a", 5)


def test_groups_are_found_by_an_indexed_config() -> None:
    def config(group: str, key: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(ConfigResource(ResourceType.GROUP, group), key, value)

    state = folded(
        config("b", "share.paused", "true"),
        config("a", "share.paused", "false"),
        config("a", "share.isolation.level", "read_committed"),
        config("c", "share.paused", "true"),
        config("c", "share.paused", None),
        config("d", "share.paused", None),
        config("d", "share.breaker.failed.percent", "5"),
    )
    assert state.groups_with("share.paused") == ["a", "b"]
    assert state.groups_with("share.breaker.failed.percent") == ["d"]


def test_number_of_deleted_ids_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "MAX_DELETED", 2)
    state = folded(*(TopicDeletedRecord(name) for name in ("T1", "T2", "T1", "T3", "T3")))
    assert [name for name in ("T1", "T2", "T3") if state.is_deleted(name)] == ["T1", "T3"]


def test_broker_configs_override_cluster_over_static_values() -> None:
    state = folded(
        ConfigRecord(BROKERS, "num.partitions", "4"),
        ConfigRecord(BROKERS, "message.max.bytes", "100"),
        ConfigRecord(BROKER, "num.partitions", "5"),
    )
    effective = effective_broker(state, STATIC)
    assert (effective.num_partitions, effective.message_max_bytes, effective.log_retention_ms) == (5, 100, 77)


def test_cluster_configs_that_contradict_the_node_are_ignored() -> None:
    state = folded(
        ConfigRecord(BROKERS, "group.share.max.size", "900"), ConfigRecord(BROKER, "num.partitions", "5")
    )
    static = BrokerConfig.parse(["node.id=1", "group.share.max.share.sessions=200"])
    assert effective_broker(state, static).group_share_max_size == 200
    assert effective_broker(state, static).num_partitions == 5


def test_unknown_record_raises_an_error() -> None:
    with pytest.raises(NotImplementedError):
        TopicCatalog().apply("nonsense", 1)  # type: ignore[arg-type]  # that is the point
