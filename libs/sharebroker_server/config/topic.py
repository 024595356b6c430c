"""The properties of a topic, and the effective values for a broker configuration.

Properties of log segments, replication and compaction exist because Kafka's tools and frameworks set them.
They are validated, stored and returned, and have no effect on a log without segments or replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.keys import (
    LONG_MAX,
    NO_EFFECT,
    Key,
    attribute,
    boolean,
    choice,
    ignored,
    inherited,
    integer,
    parse_all,
    several,
    table,
)

_WEEK: Final = 7 * 24 * 3_600_000


def _of(name: str, **changes: Any) -> Any:
    return inherited(BROKER_KEYS[name], **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's effective config; create with `resolve_topic`."""

    retention_ms: int = _of("log.retention.ms")
    retention_bytes: int = _of("log.retention.bytes")
    retention_policy: str = choice(
        "time-and-size",
        ("time-and-size", "consumed"),
        "consumed: also delete records that every share group of the topic has finished (not in Kafka).",
    )
    max_message_bytes: int = _of("message.max.bytes")
    share_state_storage: str = choice(
        "coordinator",
        ("coordinator", "log"),
        "Where the state of share groups is stored: by the share coordinator, or in the log of each "
        "partition (preview); set when the topic is created (not in Kafka).",
    )
    share_state_log_bytes: int = integer(
        64 << 20,
        1 << 20,
        LONG_MAX,
        "With share.state.storage=log: a group whose newest checkpoint is more bytes before the log end gets "
        "another one, so that it does not keep old records of the log (not in Kafka).",
    )
    message_dedup_window_ms: int = integer(
        0,
        0,
        86_400_000,
        "A record with the message id of an earlier record of its partition is a duplicate for this time; 0: "
        "message ids have no effect (not in Kafka).",
    )
    delivery_delay_enable: bool = boolean(
        False,
        "Share groups deliver a record with the header sharebroker.deliver.at at that time (not in Kafka).",
    )
    delivery_delay_max_ms: int = _of("delivery.delay.max.ms")
    message_timestamp_type: str = _of("log.message.timestamp.type")
    message_timestamp_before_max_ms: int = _of("log.message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = _of("log.message.timestamp.after.max.ms")
    errors_deadletterqueue_group_enable: bool = boolean(
        False, "Share groups may write dead letters to this topic."
    )
    cleanup_policy: str = several(
        "delete", ("delete",), "How old records are removed: delete. Compaction is not supported."
    )
    compression_type: str = _of("compression.type", broker="")
    compression_gzip_level: int = ignored(-1, -1, 9)
    compression_lz4_level: int = ignored(9, 1, 17)
    compression_zstd_level: int = ignored(3, -131_072, 22)
    min_insync_replicas: int = ignored(1, 1)
    unclean_leader_election_enable: bool = ignored(False)
    preallocate: bool = ignored(False)
    segment_bytes: int = ignored(1_073_741_824, 14)
    segment_ms: int = ignored(_WEEK, 1, LONG_MAX)
    segment_jitter_ms: int = ignored(0, 0, LONG_MAX)
    segment_index_bytes: int = ignored(10_485_760, 4)
    index_interval_bytes: int = ignored(4096)
    flush_messages: int = ignored(LONG_MAX, 1, LONG_MAX)
    flush_ms: int = ignored(LONG_MAX, 0, LONG_MAX)
    file_delete_delay_ms: int = ignored(60_000, 0, LONG_MAX)
    delete_retention_ms: int = ignored(86_400_000, 0, LONG_MAX)
    min_compaction_lag_ms: int = ignored(0, 0, LONG_MAX)
    max_compaction_lag_ms: int = ignored(LONG_MAX, 1, LONG_MAX)
    min_cleanable_dirty_ratio: str = ignored("0.5")
    leader_replication_throttled_replicas: str = several("", (), NO_EFFECT, honoured=False)
    follower_replication_throttled_replicas: str = several("", (), NO_EFFECT, honoured=False)


TOPIC_KEYS: Final[Mapping[str, Key]] = table(TopicConfig)
"""Every topic property by name."""


def check_topic(settings: Mapping[str, str]) -> None:
    """Checks all values that a topic would have. Raises INVALID_CONFIG."""
    parse_all(TOPIC_KEYS, settings, "topic config name")


def resolve_topic(settings: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """Returns the effective config: the topic's own values, else the broker's defaults.

    Raises INVALID_CONFIG.
    """
    values: dict[str, Any] = {attribute(name): broker.default(key) for name, key in TOPIC_KEYS.items()}
    return TopicConfig(**values | parse_all(TOPIC_KEYS, settings, "topic config name"))
