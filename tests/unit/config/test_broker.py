"""Broker properties: defaults, bounds, messages, and the rules between properties."""

from __future__ import annotations

import dataclasses

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BOUNDED, BROKER_KEYS, BrokerConfig
from sharebroker_server.config.keys import Key, ValueType, render
from tests.testkit.tables import each

NUMBERS = [key for key in BROKER_KEYS.values() if key.type in (ValueType.INT, ValueType.LONG)]
CHOICES = [key for key in BROKER_KEYS.values() if key.choices]
FLAGS = [key for key in BROKER_KEYS.values() if key.type is ValueType.BOOLEAN]

KAFKA_DEFAULTS = {
    "group.share.max.size": 200,
    "group.share.session.timeout.ms": 45000,
    "group.share.min.session.timeout.ms": 45000,
    "group.share.max.session.timeout.ms": 60000,
    "group.share.heartbeat.interval.ms": 5000,
    "group.share.min.heartbeat.interval.ms": 5000,
    "group.share.max.heartbeat.interval.ms": 15000,
    "group.share.assignors": "simple",
    "group.share.initialize.retry.interval.ms": 30000,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.max.assignment.interval.ms": 15000,
    "group.share.delivery.count.limit": 5,
    "group.share.min.delivery.count.limit": 2,
    "group.share.max.delivery.count.limit": 10,
    "group.share.record.lock.duration.ms": 30000,
    "group.share.min.record.lock.duration.ms": 15000,
    "group.share.max.record.lock.duration.ms": 60000,
    "group.share.partition.max.record.locks": 2000,
    "group.share.min.partition.max.record.locks": 100,
    "group.share.max.partition.max.record.locks": 4000,
    "group.share.max.share.sessions": 2000,
    "group.share.persister.class.name": "org.apache.kafka.server.share.persister.DefaultStatePersister",
    "share.coordinator.state.topic.num.partitions": 50,
    "share.coordinator.state.topic.prune.interval.ms": 300000,
    "share.coordinator.cold.partition.snapshot.interval.ms": 300000,
    "share.coordinator.snapshot.update.records.per.snapshot": 500,
    "share.coordinator.write.timeout.ms": 5000,
    "share.coordinator.append.linger.ms": -1,
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
    "group.coordinator.threads": 4,
    "group.share.assignor.offload.enable": True,
    "share.coordinator.cached.buffer.max.bytes": 1048588,
    "share.coordinator.load.buffer.size": 5242880,
    "share.coordinator.state.topic.compression.codec": 0,
    "share.coordinator.state.topic.segment.bytes": 104857600,
    "share.coordinator.threads": 1,
    "share.fetch.purgatory.purge.interval.requests": 1000,
    "offsets.topic.num.partitions": 50,
    "offsets.commit.timeout.ms": 5000,
    "auto.create.topics.enable": False,
    "num.partitions": 1,
    "message.max.bytes": 1048588,
    "log.retention.ms": 604800000,
    "log.retention.bytes": -1,
    "log.message.timestamp.type": "CreateTime",
    "fetch.max.bytes": 57671680,
}


def refused(settings: dict[str, str]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        BrokerConfig.of(settings)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    return caught.value


@each("name, value", KAFKA_DEFAULTS.items())
def test_default_is_kafkas(name: str, value: object) -> None:
    assert BrokerConfig().get(name) == value


def test_assignments_are_not_rate_limited_unlike_kafkas() -> None:
    assert BrokerConfig().group_share_assignment_interval_ms == 0


@each("key", BROKER_KEYS.values())
def test_every_default_passes_its_own_check_and_is_documented(key: Key) -> None:
    assert key.parse(render(key.default)) == key.default
    assert key.doc.endswith(".")


@each("key", NUMBERS)
def test_number_out_of_bounds_is_rejected_with_bounds(key: Key) -> None:
    assert key.parse(str(key.low)) == key.low
    assert key.parse(f" {key.high} ") == key.high
    for bad in (str(key.low - 1), str(key.high + 1), "many", "", "1.5"):
        with pytest.raises(KafkaError, match=f"from {key.low} to {key.high}"):
            key.parse(bad)


@pytest.mark.parametrize("key", CHOICES, ids=lambda key: key.name)
def test_choice_accepts_only_listed_values(key: Key) -> None:
    assert [key.parse(option) for option in key.choices] == list(key.choices)
    with pytest.raises(KafkaError, match="expected one of "):
        key.parse("other")


@pytest.mark.parametrize("key", FLAGS, ids=lambda key: key.name)
def test_flag_accepts_true_and_false_in_any_case(key: Key) -> None:
    assert key.parse("TRUE") is True
    assert key.parse("false") is False
    with pytest.raises(KafkaError, match="Expected value to be either true or false"):
        key.parse("1")


def test_parse_reads_assignments_and_the_last_one_wins() -> None:
    config = BrokerConfig.parse(["num.partitions=3", " num.partitions = 8", "node.id=7"])
    assert (config.num_partitions, config.node_id) == (8, 7)


@pytest.mark.parametrize("bad", ["num.partitions", "=3", " =3", ""])
def test_parse_rejects_invalid_assignments(bad: str) -> None:
    with pytest.raises(KafkaError, match="expected key=value"):
        BrokerConfig.parse([bad])


def test_unknown_property_names_the_nearest_one() -> None:
    error = refused({"group.share.maxsize": "3"})
    assert (
        error.message
        == "Unknown broker configuration: group.share.maxsize; did you mean group.share.max.size?"
    )
    assert error.metadata == {"config": "group.share.maxsize"}
    assert refused({"zzz": "3"}).message == "Unknown broker configuration: zzz"


@pytest.mark.parametrize(("name", "low", "high"), BOUNDED)
def test_value_stays_between_minimum_and_maximum(name: str, low: str, high: str) -> None:
    config = BrokerConfig()
    key = BROKER_KEYS[name]
    below, above = int(config.get(low)) - 1, int(config.get(high)) + 1
    if below >= key.low:
        assert f"{low}=" in refused({name: str(below)}).message
    if above <= key.high:
        assert f"{high}={above - 1} is required" in refused({name: str(above)}).message
    assert BrokerConfig.of({name: str(config.get(high))}).get(name) == config.get(high)


def test_heartbeat_interval_is_less_than_the_session_timeout() -> None:
    bounds = {
        "group.share.min.session.timeout.ms": "1",
        "group.share.min.heartbeat.interval.ms": "1",
        "group.share.heartbeat.interval.ms": "5000",
    }
    assert BrokerConfig.of(bounds | {"group.share.session.timeout.ms": "5001"}).node_id == -1
    assert "<" in refused(bounds | {"group.share.session.timeout.ms": "5000"}).message


def test_session_cache_holds_at_least_one_group() -> None:
    assert BrokerConfig.of({"group.share.max.share.sessions": "200"}).group_share_max_share_sessions == 200
    assert "group.share.max.size=200 <=" in refused({"group.share.max.share.sessions": "199"}).message


def test_override_changes_dynamic_properties_only() -> None:
    config = BrokerConfig.parse(["node.id=2"])
    changed = config.override({"group.share.max.size": "3"})
    assert changed == dataclasses.replace(config, group_share_max_size=3)
    with pytest.raises(KafkaError, match="cannot be changed while the broker runs") as caught:
        config.override({"node.id": "3"})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="Unknown broker configuration"):
        config.override({"nope": "3"})
    with pytest.raises(KafkaError, match="is required"):
        config.override({"group.share.session.timeout.ms": "1"})
