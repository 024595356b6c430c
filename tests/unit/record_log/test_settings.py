from __future__ import annotations

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.topic import resolve_topic
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.timestamp_bounds import TimestampBounds
from sharebroker_server.record_log.settings import LogSettings


def test_a_topic_without_settings_has_the_defaults_of_the_log() -> None:
    assert LogSettings.of_topic(resolve_topic({}, BrokerConfig())) == LogSettings()


def test_a_topic_s_settings_reach_its_log() -> None:
    topic = resolve_topic(
        {
            "max.message.bytes": "2000",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "7000",
            "message.timestamp.after.max.ms": "6000",
            "retention.ms": "1000",
            "retention.bytes": "5000",
            "retention.policy": "consumed",
        },
        BrokerConfig(),
    )
    assert LogSettings.of_topic(topic) == LogSettings(
        max_message_bytes=2000,
        log_append_time=True,
        timestamp_bounds=TimestampBounds(7000, 6000),
        retention=Retention(1000, 5000, consumed=True),
    )
