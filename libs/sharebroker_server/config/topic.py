"""The properties of a topic, and the effective values for a broker configuration.

Properties of log segments, replication and compaction exist because Kafka's tools and frameworks set them.
They are validated, stored and returned, and have no effect on a log without segments or replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.keys import (
    INT_MAX,
    LONG_MAX,
    Key,
    Value,
    attribute,
    boolean,
    choice,
    integer,
    parse_all,
    several,
    table,
    text,
)

_COMPRESSION: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_WEEK: Final = 7 * 24 * 3_600_000


def _ignored(default: int, low: int, high: int) -> Any:
    return integer(
        default, low, high, "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's effective config; create with `resolve_topic`."""

    retention_ms: int = integer(
        _WEEK,
        -1,
        LONG_MAX,
        "Time after which records are deleted; -1: no time limit.",
        broker="log.retention.ms",
    )
    retention_bytes: int = integer(
        -1,
        -1,
        LONG_MAX,
        "Size of a partition above which its oldest records are deleted; -1: no size limit.",
        broker="log.retention.bytes",
    )
    retention_policy: str = choice(
        "time-and-size",
        ("time-and-size", "consumed"),
        "consumed: also delete records that every share group of the topic has finished (not in Kafka).",
    )
    max_message_bytes: int = integer(
        1_048_588, 0, INT_MAX, "Largest record batch that the topic accepts.", broker="message.max.bytes"
    )
    message_timestamp_type: str = choice(
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Source of a record's timestamp: the producer (CreateTime) or the broker (LogAppendTime).",
        broker="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = integer(
        LONG_MAX,
        0,
        LONG_MAX,
        "Largest age of a record's timestamp when it is appended; older records are rejected.",
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = integer(
        3_600_000,
        0,
        LONG_MAX,
        "Largest distance of a record's timestamp into the future; later ones are rejected.",
        broker="log.message.timestamp.after.max.ms",
    )
    cleanup_policy: str = several(
        "delete", ("delete",), "How old records are removed: delete. Compaction is not supported."
    )
    compression_type: str = choice(
        "producer",
        _COMPRESSION,
        "Accepted for compatibility with Kafka; batches keep the producer's compression.",
        honoured=False,
    )
    compression_gzip_level: int = _ignored(-1, -1, 9)
    compression_lz4_level: int = _ignored(9, 1, 17)
    compression_zstd_level: int = _ignored(3, -131_072, 22)
    min_insync_replicas: int = _ignored(1, 1, INT_MAX)
    unclean_leader_election_enable: bool = boolean(
        False, "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )
    preallocate: bool = boolean(
        False, "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )
    segment_bytes: int = _ignored(1_073_741_824, 14, INT_MAX)
    segment_ms: int = _ignored(_WEEK, 1, LONG_MAX)
    segment_jitter_ms: int = _ignored(0, 0, LONG_MAX)
    segment_index_bytes: int = _ignored(10_485_760, 4, INT_MAX)
    index_interval_bytes: int = _ignored(4096, 0, INT_MAX)
    flush_messages: int = _ignored(LONG_MAX, 1, LONG_MAX)
    flush_ms: int = _ignored(LONG_MAX, 0, LONG_MAX)
    file_delete_delay_ms: int = _ignored(60_000, 0, LONG_MAX)
    delete_retention_ms: int = _ignored(86_400_000, 0, LONG_MAX)
    min_compaction_lag_ms: int = _ignored(0, 0, LONG_MAX)
    max_compaction_lag_ms: int = _ignored(LONG_MAX, 1, LONG_MAX)
    min_cleanable_dirty_ratio: str = text(
        "0.5", "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )
    leader_replication_throttled_replicas: str = several(
        "", (), "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )
    follower_replication_throttled_replicas: str = several(
        "", (), "Accepted for compatibility with Kafka; has no effect.", honoured=False
    )


TOPIC_KEYS: Final[Mapping[str, Key]] = table(TopicConfig)
"""Every topic property by name."""


def topic_default(key: Key, broker: BrokerConfig) -> Value:
    """Returns the value of a property that the topic does not set."""
    return broker.get(key.broker) if key.broker else key.default


def check_topic(settings: Mapping[str, str]) -> None:
    """Checks all values that a topic would have. Raises INVALID_CONFIG."""
    parse_all(TOPIC_KEYS, settings, "topic config name")


def resolve_topic(settings: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """Returns the effective config: the topic's own values, else the broker's defaults. Raises
    INVALID_CONFIG.
    """
    values: dict[str, Any] = {attribute(name): topic_default(key, broker) for name, key in TOPIC_KEYS.items()}
    return TopicConfig(**values | parse_all(TOPIC_KEYS, settings, "topic config name"))
