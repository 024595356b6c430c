"""Topic properties: Kafka's names are accepted, ineffective ones are marked, unset ones use the broker's."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.keys import Key, render
from sharebroker_server.config.topic import TOPIC_KEYS, TopicConfig, check_topic, resolve_topic
from tests.testkit.tables import each

BROKER = BrokerConfig.parse(["log.retention.ms=1000", "log.retention.bytes=2000", "message.max.bytes=3000"])


def test_topic_without_configs_uses_the_brokers_values() -> None:
    assert resolve_topic({}, BrokerConfig()) == TopicConfig()
    config = resolve_topic({}, BROKER)
    assert (config.retention_ms, config.retention_bytes, config.max_message_bytes) == (1000, 2000, 3000)


def test_topic_configs_override_the_brokers_values() -> None:
    config = resolve_topic({"retention.ms": "-1", "retention.policy": "consumed"}, BROKER)
    assert (config.retention_ms, config.retention_policy, config.retention_bytes) == (-1, "consumed", 2000)


@each("key", TOPIC_KEYS.values())
def test_every_default_is_legal(key: Key) -> None:
    check_topic({key.name: render(key.default)})
    assert BrokerConfig().default(key) == key.default


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cleanup.policy": "compact"}, "expected one of delete"),
        ({"retention.ms": "-2"}, "from -1"),
        ({"retention.policy": "never"}, "time-and-size, consumed"),
        ({"max.message.bytes": "-1"}, "from 0"),
        ({"message.timestamp.type": "createtime"}, "CreateTime, LogAppendTime"),
        ({"compression.type": "brotli"}, "producer, uncompressed"),
        ({"min.insync.replicas": "0"}, "from 1"),
        ({"retention": "1"}, "Unknown topic config name: retention"),
    ],
)
def test_invalid_config_is_rejected(settings: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        check_topic(settings)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", ["segment.bytes", "min.insync.replicas", "compression.type", "preallocate"])
def test_properties_without_effect_are_documented(name: str) -> None:
    assert not TOPIC_KEYS[name].honoured
    assert TOPIC_KEYS[name].doc.startswith("Accepted for compatibility with Kafka; ")
