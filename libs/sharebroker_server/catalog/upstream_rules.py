"""The rules of a catalog whose topics are those of another Kafka cluster.

The owner of the catalog follows that cluster: it stores which one it is, and its topics. Clients cannot
change them here. Topics of this cluster are those of dead letters only.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import dataclass, replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import Topic, check_not_internal, check_topic_name

_UUID_BYTES: Final = 16
_VERSION_BYTE: Final = 6
_FROM_NAME: Final = 5


@dataclass(frozen=True, slots=True)
class FollowCluster:
    """Names the cluster that has the records; its id is "" until one of its brokers responded.

    Without addresses the records are here.
    """

    addresses: str
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class FollowTopic:
    """Stores a topic of the other cluster as it is now; it replaces one of that name with another id."""

    name: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """Deletes a topic that the other cluster no longer has."""

    topic_id: str


UpstreamCommand = FollowCluster | FollowTopic | ForgetTopic
UpstreamReply = Topic | ClusterRecord


def decide_upstream(
    state: TopicCatalog, command: UpstreamCommand, most_partitions: int, now: float
) -> tuple[tuple[CatalogRecord, ...], UpstreamReply]:
    """Returns the records and the reply of a command; the catalog has at most `most_partitions`.

    Raises:
        KafkaError: POLICY_VIOLATION for another cluster than the stored one, for own topics, and beyond the
            limit; INVALID_TOPIC_EXCEPTION for a name that cannot be used here; UNKNOWN_TOPIC_ID.
    """
    if isinstance(command, FollowCluster):
        return follow_cluster(state, command)
    if isinstance(command, FollowTopic):
        return _follow_topic(state, command, most_partitions, now)
    topic = state.topic_by_id(command.topic_id)
    if topic is None or not topic.upstream:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"Topic id {command.topic_id} is not followed.")
    return (TopicDeletedRecord(topic.topic_id, topic.partitions),), topic


def check_same_log(state: TopicCatalog, addresses: str, cluster_id: str = "") -> None:
    """Checks that the records are where the stored data expects them.

    `addresses` is "" if they are here. `cluster_id` is "" if it is not known. Stored addresses at which no
    broker ever responded are not binding: they may be misspelt.

    Raises:
        KafkaError: POLICY_VIOLATION, with what to do.
    """
    stored = state.upstream_addresses
    if stored and not addresses and _is_confirmed(state):
        raise _refused(
            f"This data belongs to topics of the Kafka cluster at {stored}; use --log kafka://{stored}."
        )
    if addresses and not stored and (own := sum(1 for _ in state.topics())):
        raise _refused(
            f"This data has {own} topics with records of its own; use --log with an empty data folder, or "
            "with another cluster.id."
        )
    known = state.upstream_cluster_id
    if known and cluster_id and known != cluster_id:
        raise _refused(
            f"This data belongs to topics of the Kafka cluster {known} (at {stored}), and {addresses} is the "
            f"cluster {cluster_id}; correct --log, or use an empty data folder."
        )


def check_storage(storage: str) -> None:
    """Checks the default storage of share state where the topics are those of another cluster.

    Raises:
        KafkaError: INVALID_CONFIG, since nothing is written into their logs.
    """
    if storage == "log":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "group.share.state.storage=log needs logs of this cluster; with --log use coordinator.",
        )


def _is_confirmed(state: TopicCatalog) -> bool:
    """Whether a broker of the stored cluster responded once. Some clusters have no id."""
    return bool(state.upstream_cluster_id) or any(topic.upstream for topic in state.topics())


def follow_cluster(
    state: TopicCatalog, command: FollowCluster
) -> tuple[tuple[CatalogRecord, ...], UpstreamReply]:
    """Returns the records and the reply of the command. Raises KafkaError as `decide_upstream`."""
    if not state.cluster_id:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The cluster has no id yet.")
    check_same_log(state, command.addresses, command.cluster_id)
    current = state.cluster_record()
    if state.upstream_cluster_id and not command.cluster_id:
        return (), current  # the stored addresses are right, these may not be
    record = replace(
        current,
        upstream_addresses=command.addresses,
        upstream_cluster_id=command.cluster_id or state.upstream_cluster_id,
    )
    return () if record == current else (record,), record


def _follow_topic(
    state: TopicCatalog, command: FollowTopic, most_partitions: int, now: float
) -> tuple[tuple[CatalogRecord, ...], UpstreamReply]:
    if not state.upstream_addresses:
        raise _refused("This data has records of its own.")
    current = state.topic(command.name)
    topic = Topic(
        command.topic_id, command.name, command.partitions, created_ms=int(now * 1000), upstream=True
    )
    if current is None:
        _check_name(state, command.name)
        before = 0
    elif not current.upstream:
        raise _refused(
            f"A dead letter topic here has the name '{command.name}' of a topic of the other cluster."
        )
    elif current.topic_id == command.topic_id:
        if command.partitions <= current.partitions:  # a broker may respond with older metadata
            return (), current
        _check_room(state, command.partitions - current.partitions, most_partitions)
        record = PartitionsRecord(current.topic_id, command.partitions)
        return (record,), replace(current, partitions=command.partitions)
    else:
        before = current.partitions
    if state.is_deleted(command.topic_id):  # a topic that was created again has another id
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"Topic id {command.topic_id} was deleted.")
    _check_room(state, command.partitions - before, most_partitions)
    created = TopicRecord(topic)
    if current is None:
        return (created,), topic
    return (TopicDeletedRecord(current.topic_id, current.partitions), created), topic


def _check_name(state: TopicCatalog, name: str) -> None:
    check_topic_name(name)
    check_not_internal(name)
    similar = state.topic_like(name)
    if similar is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {similar.name}"
        )


def _check_room(state: TopicCatalog, added: int, most_partitions: int) -> None:
    if state.partitions + added > most_partitions:
        raise _refused(
            f"The cluster has {state.partitions} partitions; {added} more would exceed "
            f"cluster.max.partitions={most_partitions}."
        )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, message)


def is_own_id(topic_id: str) -> bool:
    """Returns whether the id was derived from the name (a UUID of version 5), and not drawn by Kafka."""
    raw = urlsafe_b64decode(topic_id + "==")
    return len(raw) == _UUID_BYTES and raw[_VERSION_BYTE] >> 4 == _FROM_NAME
