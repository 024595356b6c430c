"""Group properties: validation, resolution against the broker, clamping, reset policies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BOUNDED, BrokerConfig
from sharebroker_server.config.group import (
    GROUP_KEYS,
    GroupConfig,
    OffsetReset,
    check_group,
    duration_ms,
    resolve_group,
)
from tests.testkit.tables import each

BROKER = BrokerConfig()


BOUNDED_GROUP_KEYS = [key.name for key in GROUP_KEYS.values() if key.at_most and key.broker]


def refused(settings: dict[str, str], broker: BrokerConfig = BROKER) -> str:
    with pytest.raises(KafkaError) as caught:
        check_group(settings, broker)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    return caught.value.message


def test_group_without_configs_uses_the_brokers_values() -> None:
    assert resolve_group({}, BROKER) == GroupConfig()
    broker = BrokerConfig.parse(
        ["group.share.record.lock.duration.ms=20000", "group.share.delivery.count.limit=7"]
    )
    config = resolve_group({}, broker)
    assert (config.share_record_lock_duration_ms, config.share_delivery_count_limit) == (20000, 7)


def test_unset_group_configs_use_the_brokers_values() -> None:
    broker = BrokerConfig.parse(["group.share.delivery.count.limit=7"])
    config = resolve_group({"share.auto.offset.reset": "earliest"}, broker)
    assert config.share_delivery_count_limit == 7
    assert config.offset_reset == OffsetReset("earliest")


@each(
    "settings",
    [
        {},
        {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "15000"},
        {"share.record.lock.duration.ms": "15000"},
        {"share.auto.offset.reset": "by_duration:PT1H"},
        {"share.auto.offset.reset": " earliest "},
        {"share.isolation.level": "read_committed"},
        {"share.renew.acknowledge.enable": "false"},
        {"share.delivery.count.limit": "2", "share.partition.max.record.locks": "4000"},
        {"share.assignment.interval.ms": "1000"},
        {"share.retry.backoff.ms": "1000", "share.retry.backoff.multiplier": "1.5"},
        {"share.retry.backoff.max.ms": "86400000", "share.retry.backoff.jitter": "0"},
        {"share.retry.backoff.on": "release,timeout,session"},
        {"share.record.max.age.ms": "0"},
        {"share.record.max.age.ms": "31536000000"},
    ],
)
def test_valid_group_configs_are_resolved(settings: dict[str, str]) -> None:
    check_group(settings, BROKER)
    resolved = resolve_group(settings, BROKER)
    for name, value in settings.items():
        assert GROUP_KEYS[name].parse(value) == getattr(resolved, name.replace(".", "_"))


@each(
    "settings, message",
    [
        ({"share.unknown": "1"}, "Unknown group config name: share.unknown"),
        ({"share.isolation.level": "serializable"}, "one of read_uncommitted, read_committed"),
        ({"share.renew.acknowledge.enable": "maybe"}, "true or false"),
        ({"share.record.max.age.ms": "-1"}, "an integer from 0"),
        ({"share.session.timeout.ms": "44999"}, "group.share.min.session.timeout.ms=45000"),
        ({"share.session.timeout.ms": "60001"}, "group.share.max.session.timeout.ms=60000"),
        ({"share.heartbeat.interval.ms": "4999"}, "group.share.min.heartbeat.interval.ms=5000"),
        ({"share.record.lock.duration.ms": "999"}, "an integer from 1000"),
        ({"share.record.lock.duration.ms": "60001"}, "group.share.max.record.lock.duration.ms=60000"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit=10"),
        ({"share.delivery.count.limit": "1"}, "an integer from 2"),
        ({"share.partition.max.record.locks": "99"}, "an integer from 100"),
        ({"share.auto.offset.reset": "none"}, "latest, earliest, or by_duration"),
        ({"share.retry.backoff.ms": "-1"}, "an integer from 0"),
        ({"share.retry.backoff.ms": "86400001"}, "group.share.max.retry.delay.ms=86400000"),
        ({"share.retry.backoff.max.ms": "86400001"}, "group.share.max.retry.delay.ms=86400000"),
        ({"share.retry.backoff.multiplier": "0.5"}, "a number from 1 to 1000"),
        ({"share.retry.backoff.multiplier": "nan"}, "a number from 1 to 1000"),
        ({"share.retry.backoff.multiplier": "inf"}, "a number from 1 to 1000"),
        ({"share.retry.backoff.multiplier": "1000.1"}, "a number from 1 to 1000"),
        ({"share.retry.backoff.jitter": "-0.1"}, "a number from 0 to 1"),
        ({"share.retry.backoff.jitter": "1.1"}, "a number from 0 to 1"),
        ({"share.retry.backoff.jitter": "much"}, "a number from 0 to 1"),
        ({"share.retry.backoff.on": "reject"}, "one of release, timeout, session"),
        (
            {"share.retry.backoff.ms": "2000", "share.retry.backoff.max.ms": "1000"},
            "share.retry.backoff.max.ms=1000 must not be less than share.retry.backoff.ms=2000",
        ),
    ],
)
def test_invalid_config_is_rejected_with_allowed_values(settings: dict[str, str], message: str) -> None:
    assert message in refused(settings)


@pytest.mark.parametrize("name", ["share.retry.backoff.ms", "share.retry.backoff.max.ms"])
def test_stored_delays_are_clamped_to_the_brokers_limit(name: str) -> None:
    broker = BrokerConfig.parse(["group.share.max.retry.delay.ms=5000"])
    assert getattr(resolve_group({name: "9000"}, broker), name.replace(".", "_")) == 5000


def test_session_outlasts_heartbeat_also_against_the_brokers_value() -> None:
    broker = BrokerConfig.parse(
        ["group.share.min.session.timeout.ms=1", "group.share.max.heartbeat.interval.ms=100000"]
    )
    assert "must be less than" in refused({"share.session.timeout.ms": "5000"}, broker)
    assert "must be less than" in refused({"share.heartbeat.interval.ms": "45000"}, broker)
    check_group({"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "45000"}, broker)


@pytest.mark.parametrize("name", BOUNDED_GROUP_KEYS)
def test_value_outside_bounds_that_changed_later_is_clamped(name: str) -> None:
    key = GROUP_KEYS[name]
    low, high = int(BROKER.get(key.at_least)), int(BROKER.get(key.at_most))
    field = name.replace(".", "_")
    assert getattr(resolve_group({name: str(max(key.low, low - 1))}, BROKER), field) == max(key.low, low)
    assert getattr(resolve_group({name: str(high + 1)}, BROKER), field) == high


@given(st.sampled_from(BOUNDED), st.integers(-10, 10**6))
def test_checked_values_resolve_unchanged(bounded: tuple[str, str, str], value: int) -> None:
    name = next(key.name for key in GROUP_KEYS.values() if key.broker == bounded[0])
    try:
        check_group({name: str(value)}, BROKER)
    except KafkaError:
        return
    assert getattr(resolve_group({name: str(value)}, BROKER), name.replace(".", "_")) == value


def test_text_property_accepts_any_value() -> None:
    assert GROUP_KEYS["share.auto.offset.reset"].allowed() == "any text"


@each(
    "text, millis",
    [
        ("PT1H", 3_600_000),
        ("PT30M", 1_800_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000),
        ("PT20.345S", 20_345),
        ("PT20,345S", 20_345),
        ("PT0S", 0),
        ("pt15m", 900_000),
        ("PT0.0009S", 0),
        ("PT1.S", 1000),
        ("-PT1H", -3_600_000),
        ("-PT-1H", 3_600_000),
        ("PT-6H+3M", -6 * 3_600_000 + 180_000),
        ("PT-1.5S", -1500),
        ("+PT1S", 1000),
        ("P-1D", -86_400_000),
    ],
)
def test_duration_accepts_java_syntax(text: str, millis: int) -> None:
    assert duration_ms(text) == millis


@each(
    "text",
    ["", "P", "PT", "P1DT", "1H", "PT1", "P1Y", "P1W", "P1M", "PT1H ", "PT1.5H", "PT1M1H", "PT1.0123456789S"],
)
def test_duration_rejects_invalid_java_syntax(text: str) -> None:
    assert duration_ms(text) is None


@pytest.mark.parametrize(
    "value",
    ["Latest", "by_duration", "by_duration:", "by_duration:PT", "by_duration:-PT1H", "by_duration:1h", ""],
)
def test_invalid_reset_policy_is_rejected(value: str) -> None:
    with pytest.raises(KafkaError, match="an ISO-8601 duration"):
        OffsetReset.parse(value)


def test_valid_reset_policy_is_accepted() -> None:
    assert OffsetReset.parse("latest") == OffsetReset("latest")
    assert OffsetReset.parse("by_duration:P1DT1S") == OffsetReset("by_duration", 86_401_000)


@pytest.mark.parametrize("name", ["__x", "  __x"])
def test_a_dead_letter_topic_must_not_be_internal(name: str) -> None:
    text = "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"
    assert refused({"errors.deadletterqueue.topic.name": name}) == text


@pytest.mark.parametrize("name", ["another-prefix", "dlq.a b!", ".", "_x", "d" * 300, ""])
def test_other_dead_letter_topics_are_checked_when_one_is_written(name: str) -> None:
    check_group({"errors.deadletterqueue.topic.name": name}, BROKER)
