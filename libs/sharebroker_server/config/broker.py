"""The broker properties Sharebroker honours, with Kafka's names, defaults and bounds (Kafka 4.4).

Where a default differs from Kafka's, the property's text says so. Times are milliseconds, sizes bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.keys import (
    INT_MAX,
    LONG_MAX,
    Key,
    Value,
    attribute,
    boolean,
    choice,
    integer,
    invalid,
    parse_all,
    render,
    table,
    text,
)

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{0,64}", re.ASCII)
_COMPRESSION: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_PERSISTERS: Final = "org.apache.kafka.server.share.persister."
_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE


def _ignored(default: int, low: int) -> Any:
    return integer(default, low, INT_MAX, "Accepted; has no effect.", honoured=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """All broker properties; made by `BrokerConfig.of`, which checks what a single property cannot."""

    node_id: int = integer(
        -1,
        -1,
        INT_MAX,
        "Number of this node, each process has its own; -1 (Kafka: must be set): found by itself.",
    )
    broker_session_timeout_ms: int = integer(
        9000,
        1000,
        INT_MAX,
        "Life of this process's leases: how long one that stands still keeps its partitions and shards.",
    )

    cluster_id: str = text(
        "",
        "Name of the cluster, of letters, digits, - and _ (Kafka: made up, as it is here if empty). Clusters "
        "of different names share nothing in one Redis.",
    )
    log_level: str = choice(
        "info", ("debug", "info", "warning", "error"), "What a process logs: this and above.", dynamic=True
    )
    metrics_max_share_partitions: int = integer(
        1000,
        0,
        100_000,
        "Share-partitions of a process with metrics of their own; the others are told together as `other`.",
        dynamic=True,
    )

    # TLS.
    ssl_client_auth: str = choice(
        "none",
        ("none", "required"),
        "Whether clients, and other processes, have to show a certificate (--tls-ca says whose).",
    )

    # Redis.
    redis_wait_replicas: int = integer(
        0, 0, 100, "Replicas of Redis that must have a write before it is answered (WAIT)."
    )
    redis_wait_timeout_ms: int = integer(
        1000, 1, 2000, "Time they may take; then the call fails and may be tried again."
    )

    # Topics and the record log.
    auto_create_topics_enable: bool = boolean(
        False, "Create a topic when it is first published to. Kafka: true.", dynamic=True
    )
    delete_topic_enable: bool = boolean(True, "Allow topics to be deleted.", dynamic=True)
    num_partitions: int = integer(1, 1, 10_000, "Partitions of a topic that does not say.", dynamic=True)
    cluster_max_partitions: int = integer(
        100_000, 1, INT_MAX, "Most partitions of all topics together (Kafka: no limit).", dynamic=True
    )
    message_max_bytes: int = integer(
        1_048_588, 0, INT_MAX, "Largest record batch that is appended.", dynamic=True
    )
    log_retention_ms: int = integer(
        168 * _HOUR, -1, LONG_MAX, "How long records are kept; -1 for ever.", dynamic=True
    )
    log_retention_bytes: int = integer(
        -1, -1, LONG_MAX, "How large a partition may grow; -1: no limit.", dynamic=True
    )
    log_retention_check_interval_ms: int = integer(
        5 * _MINUTE, 1, LONG_MAX, "How often retention is applied."
    )
    log_message_timestamp_type: str = choice(
        "CreateTime", ("CreateTime", "LogAppendTime"), "Whose clock stamps a record.", dynamic=True
    )
    log_message_timestamp_before_max_ms: int = integer(
        LONG_MAX, 0, LONG_MAX, "How long ago a record may have been made, as its producer says.", dynamic=True
    )
    log_message_timestamp_after_max_ms: int = integer(
        _HOUR, 0, LONG_MAX, "How far ahead of the clock here a record's time may be.", dynamic=True
    )
    compression_type: str = choice(
        "producer", _COMPRESSION, "Accepted; batches keep the producer's compression.", honoured=False
    )
    fetch_max_bytes: int = integer(57_671_680, 1024, INT_MAX, "Most record bytes in one answer to a fetch.")
    connections_max_idle_ms: int = integer(
        10 * _MINUTE,
        -1,
        LONG_MAX,
        "A share session that is not used for this long ends, and its member's records are released; "
        "-1: never.",
    )
    socket_request_max_bytes: int = integer(104_857_600, 1, INT_MAX, "Largest request that is read.")
    queued_max_request_bytes: int = integer(
        512 << 20,
        1,
        LONG_MAX,
        "Bytes of requests under way at a door; others wait (Kafka), are refused (gRPC).",
    )
    grpc_max_calls: int = integer(
        20_000, 1, INT_MAX, "Most gRPC calls and streams of a process at a time; others are refused."
    )
    max_connections: int = integer(
        INT_MAX, 0, INT_MAX, "Most Kafka connections of a process; never more than it may open files."
    )

    # Group coordinator.
    offsets_topic_num_partitions: int = integer(50, 1, 10_000, "Shards of the group coordinator.")
    offsets_commit_timeout_ms: int = integer(5000, 1, INT_MAX, "Time a group coordinator's write may take.")
    offsets_retention_minutes: int = integer(
        7 * 24 * 60, 1, INT_MAX, "How long offsets stay that a consumer group without members has committed."
    )
    offsets_retention_check_interval_ms: int = integer(
        10 * _MINUTE, 1, LONG_MAX, "How often offsets are looked through for those."
    )
    offset_metadata_max_bytes: int = integer(4096, 0, INT_MAX, "Longest text beside a committed offset.")
    group_min_session_timeout_ms: int = integer(6000, 1, INT_MAX, "Least session timeout of a consumer.")
    group_max_session_timeout_ms: int = integer(
        30 * _MINUTE, 1, INT_MAX, "Most session timeout of a consumer."
    )
    group_initial_rebalance_delay_ms: int = integer(
        0, 0, 10 * _MINUTE, "How long an empty consumer group waits for more members than one (Kafka: 3000)."
    )
    group_max_size: int = integer(1000, 1, INT_MAX, "Most members a consumer group has (Kafka: no limit).")
    group_share_enable: bool = boolean(True, "Offer share groups (Kafka before 4.2: false).")
    group_share_assignors: str = choice("simple", ("simple",), "The assignor of share groups.")
    group_share_max_size: int = integer(200, 1, 1000, "Most members a share group has.", dynamic=True)
    group_share_max_groups: int = integer(
        1000, 1, INT_MAX, "Most share groups of a coordinator's shard (Kafka 4.0: of a broker).", dynamic=True
    )
    group_share_session_timeout_ms: int = integer(
        45_000, 1, INT_MAX, "A member that is silent for this long is fenced.", dynamic=True
    )
    group_share_min_session_timeout_ms: int = integer(45_000, 1, INT_MAX, "Least session timeout of a group.")
    group_share_max_session_timeout_ms: int = integer(60_000, 1, INT_MAX, "Most session timeout of a group.")
    group_share_heartbeat_interval_ms: int = integer(
        5000, 1, INT_MAX, "How often members are told to send a heartbeat.", dynamic=True
    )
    group_share_min_heartbeat_interval_ms: int = integer(
        5000, 1, INT_MAX, "Least heartbeat interval of a group."
    )
    group_share_max_heartbeat_interval_ms: int = integer(
        15_000, 1, INT_MAX, "Most heartbeat interval of a group."
    )
    group_share_assignment_interval_ms: int = integer(
        0, 0, INT_MAX, "Least time between two assignments of a group (Kafka: 1000).", dynamic=True
    )
    group_share_min_assignment_interval_ms: int = integer(
        0, 0, INT_MAX, "Least assignment interval of a group."
    )
    group_share_max_assignment_interval_ms: int = integer(
        15_000, 0, INT_MAX, "Most assignment interval of a group."
    )
    group_share_initialize_retry_interval_ms: int = integer(
        30_000, 1, INT_MAX, "When an initialisation of share state that was never answered is tried again."
    )
    group_share_persister_class_name: str = choice(
        f"{_PERSISTERS}DefaultStatePersister",
        (
            f"{_PERSISTERS}DefaultStatePersister",
            f"{_PERSISTERS}NoOpStatePersister",
            "DefaultStatePersister",
            "NoOpStatePersister",
        ),
        "Where share state is stored. NoOpStatePersister stores nothing: share groups lose their state when "
        "a leader restarts or changes.",
    )

    # Producers and transactions.
    producer_id_expiration_ms: int = integer(
        24 * _HOUR, 1, INT_MAX, "A partition forgets a producer that was silent for this long.", dynamic=True
    )
    transaction_state_log_num_partitions: int = integer(
        50, 1, 10_000, "Shards of the transaction coordinator."
    )
    transaction_max_timeout_ms: int = integer(
        15 * _MINUTE, 1, INT_MAX, "Longest transaction timeout a producer may ask for.", dynamic=True
    )
    transaction_max_transactional_ids: int = integer(
        20_000,
        1,
        INT_MAX,
        "Most transactional ids of a coordinator's shard (Kafka: no limit).",
        dynamic=True,
    )
    transactional_id_expiration_ms: int = integer(
        168 * _HOUR, 1, INT_MAX, "A transactional id that nobody uses is forgotten after this.", dynamic=True
    )
    transaction_partition_verification_enable: bool = boolean(
        True, "Ask the coordinator whether a transaction is going on before its first batch.", dynamic=True
    )

    # Share-partition leader.
    group_share_delivery_count_limit: int = integer(
        5, 2, 10, "Delivery attempts after which a record is archived.", dynamic=True
    )
    group_share_min_delivery_count_limit: int = integer(2, 2, 5, "Least delivery count limit of a group.")
    group_share_max_delivery_count_limit: int = integer(10, 5, 25, "Most delivery count limit of a group.")
    group_share_record_lock_duration_ms: int = integer(
        30_000, 1000, _HOUR, "How long an acquired record is locked.", dynamic=True
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000, 1000, 30_000, "Least lock duration of a group."
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000, 30_000, _HOUR, "Most lock duration of a group."
    )
    group_share_partition_max_record_locks: int = integer(
        2000, 100, 10_000, "Most records in flight in a share-partition.", dynamic=True
    )
    group_share_min_partition_max_record_locks: int = integer(100, 100, 2000, "Least lock limit of a group.")
    group_share_max_partition_max_record_locks: int = integer(
        4000, 2000, 10_000, "Most lock limit of a group."
    )
    group_share_max_share_sessions: int = integer(2000, 1, INT_MAX, "Most share sessions of a process.")
    group_share_max_share_partitions: int = integer(
        100_000, 1, INT_MAX, "Most share-partitions in the memory of a process.", dynamic=True
    )

    # Share coordinator.
    share_coordinator_state_topic_num_partitions: int = integer(
        50, 1, 10_000, "Shards of the share coordinator."
    )
    share_coordinator_state_topic_prune_interval_ms: int = integer(
        5 * _MINUTE,
        1,
        INT_MAX,
        "How often replaced share state is trimmed, and that of deleted topics looked for.",
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = integer(
        5 * _MINUTE, 1, INT_MAX, "When the state of a quiet share-partition is written anew, for trimming."
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500, 0, 500, "Most deltas between two checkpoints of a share-partition."
    )
    share_coordinator_write_timeout_ms: int = integer(
        5000, 1, INT_MAX, "Time a write of share state may take."
    )
    share_coordinator_append_linger_ms: int = integer(
        -1,
        -1,
        INT_MAX,
        "Accepted; a group of writes is collected while the append before it runs.",
        honoured=False,
    )

    # What programs that start a Kafka set: accepted, for there is nothing here that they would change.
    offsets_topic_replication_factor: int = _ignored(3, 1)
    share_coordinator_state_topic_replication_factor: int = _ignored(3, 1)
    share_coordinator_state_topic_min_isr: int = _ignored(2, 1)
    transaction_state_log_replication_factor: int = _ignored(3, 1)
    transaction_state_log_min_isr: int = _ignored(2, 1)
    group_consumer_assignment_interval_ms: int = _ignored(1000, 0)

    @staticmethod
    def of(settings: Mapping[str, str]) -> BrokerConfig:
        """The configuration that `settings` (Kafka names) make of the defaults. Raises INVALID_CONFIG."""
        return _checked(BrokerConfig(**_values(settings)))

    @staticmethod
    def parse(assignments: Iterable[str]) -> BrokerConfig:
        """Reads `key=value` texts; the last of several wins. Raises INVALID_CONFIG."""
        return BrokerConfig.of(dict(_split(assignment) for assignment in assignments))

    def override(self, settings: Mapping[str, str]) -> BrokerConfig:
        """This configuration with dynamic settings on top.

        Raises INVALID_CONFIG, and for a static one INVALID_REQUEST (Kafka: DynamicBrokerConfig).
        """
        if not settings:
            return self
        for name in settings:
            if name in BROKER_KEYS and not BROKER_KEYS[name].dynamic:
                text = f"{name} cannot be changed while the broker runs."
                raise KafkaError(ErrorCode.INVALID_REQUEST, text, metadata={"config": name})
        return _checked(replace(self, **_values(settings)))

    def get(self, name: str) -> Value:
        """The value of the property with Kafka's `name`."""
        value: Value = getattr(self, attribute(name))
        return value


BROKER_KEYS: Final[Mapping[str, Key]] = table(BrokerConfig)
"""Every broker property by name."""

_PREFIX: Final = "group.share."
BOUNDED: Final = tuple(
    (_PREFIX + name, f"{_PREFIX}min.{name}", f"{_PREFIX}max.{name}")
    for name in (
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "assignment.interval.ms",
        "delivery.count.limit",
        "record.lock.duration.ms",
        "partition.max.record.locks",
    )
)
"""Properties with the two that bound them: least <= value <= most."""

ORDERED: Final = (
    *((low, "<=", name) for name, low, _ in BOUNDED),
    *((name, "<=", high) for name, _, high in BOUNDED),
    ("group.share.heartbeat.interval.ms", "<", "group.share.session.timeout.ms"),
    ("group.share.max.size", "<=", "group.share.max.share.sessions"),
)
"""Which property must be less than which other, or at most as much."""


def _values(settings: Mapping[str, str]) -> dict[str, Any]:
    return parse_all(BROKER_KEYS, settings, "broker configuration")


def _split(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not equals or not name.strip():
        raise invalid(assignment, f"Invalid setting {assignment!r}: key=value is expected.")
    return name.strip(), value


def _checked(config: BrokerConfig) -> BrokerConfig:
    if not _CLUSTER_ID.fullmatch(config.cluster_id):
        raise invalid(
            "cluster.id",
            f"Invalid value {config.cluster_id!r} for cluster.id: at most 64 of A-Z a-z 0-9 - _.",
        )
    for smaller, sign, larger in ORDERED:
        left, right = config.get(smaller), config.get(larger)
        if left > right or (sign == "<" and left == right):  # type: ignore[operator]  # both are numbers
            raise invalid(
                smaller, f"{smaller}={render(left)} {sign} {larger}={render(right)} must hold, and does not."
            )
    return config
