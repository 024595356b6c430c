"""The broker properties that Sharebroker supports, with Kafka's names, defaults and limits (Kafka 4.4).

A property's text names each default that differs from Kafka's. Times are in milliseconds, sizes in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import LONGEST_LOCK_MS, SHORTEST_LOCK_MS
from sharebroker_server.config.authentication import AuthenticationConfig
from sharebroker_server.config.keys import (
    INT_MAX,
    LONG_MAX,
    Key,
    Value,
    attribute,
    boolean,
    choice,
    ignored,
    int_from,
    integer,
    invalid,
    long_from,
    parse_all,
    render,
    table,
    text,
)

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{0,64}", re.ASCII)
_COMPRESSION: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_PERSISTERS: Final = "org.apache.kafka.server.share.persister."
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only value of `authorizer.class.name` that turns on access control; it is Kafka's."""

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(AuthenticationConfig):
    """All broker properties.

    Create with `BrokerConfig.of`, which also checks properties against each other.
    """

    node_id: int = int_from(
        -1,
        -1,
        "Id of this broker, unique in the cluster; -1: assigned automatically (Kafka requires a value).",
    )
    broker_session_timeout_ms: int = int_from(
        9000,
        1000,
        "Lifetime of this broker's leases. A broker that freezes or loses Redis for this long loses its "
        "partitions and shards to other brokers.",
    )

    cluster_id: str = text(
        "",
        "Id of the cluster: up to 64 letters, digits, - and _; generated if empty. Clusters with different "
        "ids can use the same Redis and share no data.",
    )
    log_level: str = choice(
        "info",
        ("debug", "info", "warning", "error"),
        "Lowest level of log lines that are written.",
        dynamic=True,
    )
    metrics_max_share_partitions: int = integer(
        1000,
        0,
        100_000,
        "Share-partitions of a broker with their own metric labels; further ones share the label `other`.",
        dynamic=True,
    )

    # TLS.
    ssl_client_auth: str = choice(
        "none",
        ("none", "required"),
        "Whether clients and other brokers must present a certificate signed by the CA in --tls-ca.",
    )
    broker_principals: str = text(
        "",
        "Subjects of certificates (RFC 2253, separated by ;) whose owners may call internal RPCs without a "
        "cluster token. Needs ssl.client.auth=required.",
    )

    ssl_principal_mapping_rules: str = text(
        "DEFAULT",
        "Rules that turn the subject of a client certificate into the name of its principal: DEFAULT or "
        "RULE:pattern/replacement/[LU], separated by commas. Patterns are Python's.",
    )

    # Authorization.
    authorizer_class_name: str = choice(
        "",
        ("", STANDARD_AUTHORIZER),
        "Authorizer that decides by ACLs what clients may do. Empty: every client may do everything.",
    )
    super_users: str = text(
        "",
        "Principals, such as User:admin, that may do everything; separated by ;. The user of --admin-user "
        "need not be listed.",
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Whether every client may do everything to a resource that no ACL is about."
    )

    # Redis.
    redis_wait_replicas: int = integer(
        0, 0, 100, "Number of Redis replicas that must confirm a write before it counts as durable (WAIT)."
    )
    redis_wait_timeout_ms: int = integer(
        1000, 1, 2000, "Time limit for that confirmation. After it the request fails with a retriable error."
    )

    # Topics and the record log.
    auto_create_topics_enable: bool = boolean(
        False, "Create a missing topic on the first produce request (Kafka's default is true).", dynamic=True
    )
    delete_topic_enable: bool = boolean(True, "Permit the deletion of topics.", dynamic=True)
    num_partitions: int = integer(
        1, 1, 10_000, "Number of partitions of a topic created without one.", dynamic=True
    )
    cluster_max_partitions: int = int_from(
        100_000, 1, "Largest number of partitions of all topics together (Kafka has no limit).", dynamic=True
    )
    message_max_bytes: int = int_from(
        1_048_588, 0, "Largest record batch that a topic accepts.", dynamic=True
    )
    log_retention_ms: int = long_from(
        168 * _HOUR, -1, "Time after which records are deleted; -1: no time limit.", dynamic=True
    )
    log_retention_bytes: int = long_from(
        -1,
        -1,
        "Size of a partition above which its oldest records are deleted; -1: no size limit.",
        dynamic=True,
    )
    log_retention_check_interval_ms: int = long_from(
        5 * _MINUTE, 1, "Interval at which retention deletes records."
    )
    log_message_timestamp_type: str = choice(
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Source of a record's timestamp: the producer (CreateTime) or the broker (LogAppendTime).",
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = long_from(
        LONG_MAX,
        0,
        "Largest age of a record's timestamp when it is appended; older records are rejected.",
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = long_from(
        _HOUR,
        0,
        "Largest distance of a record's timestamp into the future; later ones are rejected.",
        dynamic=True,
    )
    compression_type: str = choice(
        "producer",
        _COMPRESSION,
        "Accepted for compatibility with Kafka; batches keep the producer's compression.",
        honoured=False,
    )
    fetch_max_bytes: int = int_from(57_671_680, 1024, "Largest number of record bytes in one fetch response.")
    connections_max_idle_ms: int = long_from(
        10 * _MINUTE,
        -1,
        "Idle time after which a share session is evicted and its member's records are released; -1: never.",
    )
    socket_request_max_bytes: int = int_from(
        104_857_600, 1, "Largest request that a connection accepts; a larger one closes the connection."
    )
    queued_max_request_bytes: int = long_from(
        128 << 20,
        1,
        "Memory budget of the requests in progress, per listener. Beyond it the Kafka listener stops "
        "reading and disconnects clients with incomplete requests, and the gRPC listener rejects requests.",
    )
    grpc_max_calls: int = int_from(
        20_000,
        1,
        "Largest number of concurrent gRPC calls and streams of a broker; further ones are rejected.",
    )
    grpc_max_streams_per_connection: int = int_from(
        1_000,
        1,
        "Largest number of streams, for example of consumers, on a client's gRPC connection; further ones "
        "are rejected. Raise it if a proxy forwards many clients on one connection.",
    )
    max_connections: int = int_from(
        INT_MAX, 0, "Largest number of Kafka connections of a broker; also limited by its open-files limit."
    )

    # Quotas.
    quota_window_num: int = int_from(
        11,
        1,
        "Windows of quota.window.size.seconds whose unused quota a client may use at once.",
    )
    quota_window_size_seconds: int = int_from(1, 1, "Length of such a window, in seconds.")
    controller_quota_window_num: int = int_from(11, 1, "As quota.window.num, for controller_mutation_rate.")
    controller_quota_window_size_seconds: int = int_from(
        1, 1, "As quota.window.size.seconds, for controller_mutation_rate."
    )

    # Group coordinator.
    offsets_topic_num_partitions: int = integer(
        50, 1, 10_000, "Number of group coordinator shards; cannot change once the cluster has data."
    )
    offsets_commit_timeout_ms: int = int_from(
        5000, 1, "Time limit of a group coordinator's write, after which the request fails."
    )
    offsets_retention_minutes: int = int_from(
        7 * 24 * 60, 1, "Time after which committed offsets of a consumer group without members are deleted."
    )
    offsets_retention_check_interval_ms: int = long_from(
        10 * _MINUTE, 1, "Interval at which expired committed offsets are deleted."
    )
    offset_metadata_max_bytes: int = int_from(4096, 0, "Largest metadata text of a committed offset.")
    group_min_session_timeout_ms: int = int_from(
        6000, 1, "Smallest session timeout that a consumer may request."
    )
    group_max_session_timeout_ms: int = int_from(
        30 * _MINUTE, 1, "Largest session timeout that a consumer may request."
    )
    group_initial_rebalance_delay_ms: int = integer(
        0,
        0,
        10 * _MINUTE,
        "Time that the first rebalance of a consumer group waits for more members (Kafka: 3000).",
    )
    group_max_size: int = int_from(
        1000, 1, "Largest number of members of a consumer group (Kafka has no limit)."
    )
    group_share_enable: bool = boolean(True, "Enable share groups (Kafka before 4.2: false).")
    group_share_assignors: str = choice("simple", ("simple",), "Assignor of share groups.")
    group_share_max_size: int = integer(
        200, 1, 1000, "Largest number of members of a share group.", dynamic=True
    )
    group_share_max_groups: int = int_from(
        1000,
        1,
        "Largest number of share groups per group coordinator shard (Kafka 4.0: per broker).",
        dynamic=True,
    )
    group_share_session_timeout_ms: int = int_from(
        45_000, 1, "Time without heartbeats after which a member of a share group is fenced.", dynamic=True
    )
    group_share_min_session_timeout_ms: int = int_from(
        45_000, 1, "Smallest session timeout that a group may configure."
    )
    group_share_max_session_timeout_ms: int = int_from(
        60_000, 1, "Largest session timeout that a group may configure."
    )
    group_share_heartbeat_interval_ms: int = int_from(
        5000, 1, "Heartbeat interval of the members of a share group.", dynamic=True
    )
    group_share_min_heartbeat_interval_ms: int = int_from(
        5000, 1, "Smallest heartbeat interval that a group may configure."
    )
    group_share_max_heartbeat_interval_ms: int = int_from(
        15_000, 1, "Largest heartbeat interval that a group may configure."
    )
    group_share_assignment_interval_ms: int = int_from(
        0, 0, "Smallest time between two assignments of a share group; Kafka's default is 1000.", dynamic=True
    )
    group_share_min_assignment_interval_ms: int = int_from(
        0, 0, "Smallest assignment interval that a group may configure."
    )
    group_share_max_assignment_interval_ms: int = int_from(
        15_000, 0, "Largest assignment interval that a group may configure."
    )
    group_share_initialize_retry_interval_ms: int = int_from(
        30_000, 1, "Time after which an unanswered initialisation of share-group state is sent again."
    )
    group_share_persister_class_name: str = choice(
        f"{_PERSISTERS}DefaultStatePersister",
        (
            f"{_PERSISTERS}DefaultStatePersister",
            f"{_PERSISTERS}NoOpStatePersister",
            "DefaultStatePersister",
            "NoOpStatePersister",
            "",
        ),
        "Where share state is stored. NoOpStatePersister or an empty value stores nothing: the state of all "
        "share groups is lost when a leader restarts or changes.",
    )
    group_share_state_storage: str = choice(
        "coordinator",
        ("coordinator", "log"),
        "`share.state.storage` of new topics that do not set it (not in Kafka).",
        dynamic=True,
    )

    # Producers and transactions.
    producer_id_expiration_ms: int = int_from(
        24 * _HOUR, 1, "Time without writes after which a partition deletes a producer's state.", dynamic=True
    )
    transaction_state_log_num_partitions: int = integer(
        50, 1, 10_000, "Number of transaction coordinator shards; cannot change once the cluster has data."
    )
    transaction_max_timeout_ms: int = int_from(
        15 * _MINUTE, 1, "Largest transaction timeout that a producer may request.", dynamic=True
    )
    transaction_max_transactional_ids: int = int_from(
        20_000,
        1,
        "Largest number of transactional ids per transaction coordinator shard (Kafka has no limit).",
        dynamic=True,
    )
    transactional_id_expiration_ms: int = int_from(
        168 * _HOUR, 1, "Time after which an unused transactional id is deleted.", dynamic=True
    )
    transaction_partition_verification_enable: bool = boolean(
        True,
        "Verify with the coordinator that a transaction is open before its first batch is appended.",
        dynamic=True,
    )

    # Share-partition leader.
    group_share_delivery_count_limit: int = integer(
        5,
        2,
        10,
        "Delivery limit: number of deliveries after which an unaccepted record is archived.",
        dynamic=True,
    )
    group_share_min_delivery_count_limit: int = integer(
        2, 2, 5, "Smallest delivery limit that a group may configure."
    )
    group_share_max_delivery_count_limit: int = integer(
        10, 5, 25, "Largest delivery limit that a group may configure."
    )
    group_share_record_lock_duration_ms: int = integer(
        30_000,
        1000,
        _HOUR,
        "Duration of an acquisition lock. A record that is not acknowledged in time becomes available again.",
        dynamic=True,
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000, 1000, 30_000, "Smallest lock duration that a group may configure."
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000, 30_000, _HOUR, "Largest lock duration that a group may configure."
    )
    group_share_max_lock_ms: int = integer(
        12 * _HOUR,
        SHORTEST_LOCK_MS,
        LONGEST_LOCK_MS,
        "Largest `lock_ms` of a subscription, acquisition or renewal over gRPC.",
    )
    group_share_partition_max_record_locks: int = integer(
        2000, 100, 10_000, "Largest number of in-flight records of a share-partition.", dynamic=True
    )
    group_share_min_partition_max_record_locks: int = integer(
        100, 100, 2000, "Smallest limit of in-flight records that a group may configure."
    )
    group_share_max_partition_max_record_locks: int = integer(
        4000, 2000, 10_000, "Largest limit of in-flight records that a group may configure."
    )
    group_share_max_retry_delay_ms: int = integer(
        24 * _HOUR,
        0,
        24 * _HOUR,
        "Longest delay before a redelivery that a group may configure.",
        dynamic=True,
    )
    delivery_delay_max_ms: int = integer(
        24 * _HOUR,
        0,
        24 * _HOUR,
        "Longest time from an append to the delivery time of a record (not in Kafka).",
        dynamic=True,
    )
    group_share_partition_max_runs: int = integer(
        20_000,
        1000,
        1_000_000,
        "Number of runs (ranges of records in one state) of a share-partition from which on it delivers no "
        "new records.",
        dynamic=True,
    )
    share_partition_max_archiving_records: int = integer(
        10_000,
        100,
        10_000,
        "Number of records of a share-partition that wait for their dead letters, from which on it delivers "
        "no records (not in Kafka).",
        dynamic=True,
    )
    group_share_max_share_sessions: int = int_from(2000, 1, "Largest number of share sessions of a broker.")
    group_share_max_share_partitions: int = int_from(
        100_000, 1, "Largest number of share-partitions that a broker keeps in memory.", dynamic=True
    )

    # Share coordinator.
    share_coordinator_state_topic_num_partitions: int = integer(
        50, 1, 10_000, "Number of share coordinator shards; cannot change once the cluster has data."
    )
    share_coordinator_state_topic_prune_interval_ms: int = int_from(
        5 * _MINUTE,
        1,
        "Interval at which replaced share-group state is trimmed and state of deleted topics is removed.",
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = int_from(
        5 * _MINUTE,
        1,
        "Time after which the state of an unchanged share-partition is checkpointed, so that its log can "
        "be trimmed.",
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500,
        0,
        500,
        "Largest number of deltas between two checkpoints of a share-partition; 0: checkpoints only.",
    )
    share_coordinator_write_timeout_ms: int = int_from(
        5000, 1, "Time limit of a state write, after which the request fails."
    )
    share_coordinator_append_linger_ms: int = int_from(
        -1,
        -1,
        "Accepted for compatibility with Kafka; writes are grouped while the previous append is in flight.",
        honoured=False,
    )

    errors_deadletterqueue_auto_create_topics_enable: bool = boolean(
        False,
        "Create the dead letter topic of a share group when the first letter is written and the topic does "
        "not exist.",
        dynamic=True,
    )
    errors_deadletterqueue_topic_name_prefix: str = text(
        "dlq.", "Prefix that names of dead letter topics must have; empty: any name.", dynamic=True
    )
    group_share_dead_letter_copy_default: bool = boolean(
        False,
        "Default of errors.deadletterqueue.copy.record.enable of share groups (not in Kafka).",
        dynamic=True,
    )

    # Properties that programs set when they start Kafka: accepted, since nothing here depends on them.
    offsets_topic_replication_factor: int = ignored(3, 1)
    share_coordinator_state_topic_replication_factor: int = ignored(3, 1)
    share_coordinator_state_topic_min_isr: int = ignored(2, 1)
    transaction_state_log_replication_factor: int = ignored(3, 1)
    transaction_state_log_min_isr: int = ignored(2, 1)
    group_consumer_assignment_interval_ms: int = ignored(1000, 0)
    group_coordinator_rebalance_protocols: str = ignored("classic,consumer,streams,share")
    group_coordinator_threads: int = ignored(4, 1)
    group_share_assignor_offload_enable: bool = ignored(True)
    share_coordinator_cached_buffer_max_bytes: int = ignored(1_048_588, 512 * 1024)
    share_coordinator_load_buffer_size: int = ignored(5_242_880, 1)
    share_coordinator_state_topic_compression_codec: int = ignored(0, 0, 4)
    share_coordinator_state_topic_segment_bytes: int = ignored(104_857_600, 1)
    share_coordinator_threads: int = ignored(1, 1)
    share_fetch_purgatory_purge_interval_requests: int = ignored(1000, 0)

    @staticmethod
    def of(settings: Mapping[str, str]) -> BrokerConfig:
        """Returns the defaults with `settings` (by Kafka name) applied. Raises INVALID_CONFIG."""
        return _checked(BrokerConfig(**_values(settings)))

    @staticmethod
    def parse(assignments: Iterable[str]) -> BrokerConfig:
        """Returns the configuration for `key=value` texts; the last value of a key wins.

        Raises INVALID_CONFIG.
        """
        return BrokerConfig.of(dict(_split(assignment) for assignment in assignments))

    def override(self, settings: Mapping[str, str]) -> BrokerConfig:
        """Returns this configuration with dynamic configs applied.

        Raises INVALID_CONFIG, and INVALID_REQUEST for a static property (Kafka: DynamicBrokerConfig).
        """
        if not settings:
            return self
        for name in settings:
            if name in BROKER_KEYS and not BROKER_KEYS[name].dynamic:
                text = f"{name} cannot be changed while the broker runs."
                raise KafkaError(ErrorCode.INVALID_REQUEST, text, metadata={"config": name})
        return _checked(replace(self, **_values(settings)))

    @property
    def stores_share_state(self) -> bool:
        """Whether the persister stores anything."""
        return self.group_share_persister_class_name.endswith("DefaultStatePersister")

    def get(self, name: str) -> Value:
        """Returns the value of the property with Kafka's `name`."""
        value: Value = getattr(self, attribute(name))
        return value

    def default(self, key: Key) -> Value:
        """Returns the value of a group or topic property that is not set."""
        return self.get(key.broker) if key.broker else key.default


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
"""Properties with the two properties that limit them: minimum <= value <= maximum."""

ORDERED: Final = (
    *((low, "<=", name) for name, low, _ in BOUNDED),
    *((name, "<=", high) for name, _, high in BOUNDED),
    ("group.share.heartbeat.interval.ms", "<", "group.share.session.timeout.ms"),
    ("group.share.max.size", "<=", "group.share.max.share.sessions"),
)
"""Pairs of properties whose values must be ordered, strictly ("<") or not ("<=")."""


def _values(settings: Mapping[str, str]) -> dict[str, Any]:
    return parse_all(BROKER_KEYS, settings, "broker configuration")


def _split(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not equals or not name.strip():
        raise invalid(assignment, f"Invalid setting {assignment!r}: expected key=value.")
    return name.strip(), value


def _checked(config: BrokerConfig) -> BrokerConfig:
    if not _CLUSTER_ID.fullmatch(config.cluster_id):
        raise invalid(
            "cluster.id",
            f"Invalid value {config.cluster_id!r} for cluster.id: expected at most 64 characters of "
            "A-Z, a-z, 0-9, - and _.",
        )
    for smaller, sign, larger in ORDERED:
        left, right = config.get(smaller), config.get(larger)
        if left > right or (sign == "<" and left == right):  # type: ignore[operator]  # both are numbers
            raise invalid(smaller, f"{smaller}={render(left)} {sign} {larger}={render(right)} is required.")
    return config
