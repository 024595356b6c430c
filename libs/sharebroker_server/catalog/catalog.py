"""The state of the catalog: topics, configs, users, ACLs, quotas, cluster id, feature levels.

Only `apply` changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import singledispatchmethod
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.acls import AclDeletedRecord, AclRecord, apply_acl
from sharebroker_server.catalog.quotas import QuotaCatalog, QuotaRecord
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord, ScramCredentialRecord, UserCatalog
from sharebroker_server.config.group import FAILED_PERCENT, PAUSED
from sharebroker_server.security.acl_rules import AclRules

MAX_DELETED: Final = 10_000
"""The number of deleted topic ids that are stored; the oldest are dropped."""

INDEXED: Final = (PAUSED, FAILED_PERCENT)
"""The configs of groups by which their groups are found without a walk over all groups."""

_NONE: Final[Mapping[str, str]] = {}


class TopicCatalog:
    """The catalog as of the record at `position` of its log."""

    __slots__ = (
        "_deleted",
        "_groups_with",
        "_ids",
        "_metric_names",
        "_topics",
        "access_changes",
        "acls",
        "cluster_id",
        "dynamic_configs",
        "feature_levels",
        "features_epoch",
        "partitions",
        "position",
        "quotas",
        "topic_by_id",
        "upstream_addresses",
        "upstream_cluster_id",
        "users",
    )

    def __init__(self) -> None:
        self.cluster_id = ""
        self.feature_levels: Mapping[str, int] = {}
        """The stored levels of the features; empty if none are stored."""
        self.features_epoch = 1
        """The number of the levels' last change; 1 before it."""
        self.upstream_addresses = ""
        """HOST:PORT,… of the Kafka cluster that has the records; "" if they are here."""
        self.upstream_cluster_id = ""
        self.position = 0
        self.users = UserCatalog()
        self.acls = AclRules()
        self.quotas = QuotaCatalog()
        self.access_changes = 0
        """The number of records about users and ACLs that were applied."""
        self.partitions = 0
        """The number of partitions of all topics."""
        self._topics: dict[str, Topic] = {}
        self.topic_by_id: Callable[[str], Topic | None] = self._topics.get
        """Returns the topic with an id: the dict's own method, called for each partition of a request."""
        self._ids: dict[str, str] = {}
        self._metric_names: dict[str, str] = {}
        self.dynamic_configs: dict[ConfigResource, dict[str, str]] = {}
        """The configs set on groups and brokers."""
        self._groups_with: Mapping[str, set[str]] = {key: set() for key in INDEXED}
        self._deleted: dict[str, None] = {}

    def apply(self, record: CatalogRecord, position: int) -> None:
        """Applies the record at `position`."""
        self._apply(record)
        self.position = position

    def topic(self, name: str) -> Topic | None:
        """Returns the topic with this name."""
        return self._topics.get(self._ids.get(name, ""))

    def topics(self) -> Iterable[Topic]:
        """Returns all topics, sorted by name."""
        return (self._topics[self._ids[name]] for name in sorted(self._ids))

    def topic_like(self, name: str) -> Topic | None:
        """Returns a topic of the same name if "." and "_" count as equal, as in metric names."""
        return self.topic(self._metric_names.get(metric_name(name), ""))

    def is_deleted(self, topic_id: str) -> bool:
        """Returns whether a topic with this id was deleted; False also for an unknown id."""
        return topic_id in self._deleted

    def deleted(self) -> Iterable[str]:
        """Returns the ids of deleted topics, newest last."""
        return self._deleted

    def dropped_by(self, topic_id: str) -> str:
        """Returns the deleted topic that is dropped once `topic_id` is deleted; "" for none."""
        if topic_id in self._deleted or len(self._deleted) < MAX_DELETED:
            return ""
        return next(iter(self._deleted))

    def cluster_record(self) -> ClusterRecord:
        """Returns the record of the cluster id and the feature levels."""
        return ClusterRecord(
            self.cluster_id,
            self.feature_levels,
            self.features_epoch,
            self.upstream_addresses,
            self.upstream_cluster_id,
        )

    def check_may_create(self, name: str, dead_letter_prefix: str) -> None:
        """Raises POLICY_VIOLATION for a topic that must be created in the other cluster."""
        if self.upstream_addresses and not name.startswith(dead_letter_prefix):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Create topic '{name}' in the Kafka cluster at {self.upstream_addresses}. Here are dead "
                f"letter topics only; their names start with '{dead_letter_prefix}'.",
            )

    def check_own(self, topic: Topic | None) -> None:
        """Raises POLICY_VIOLATION for a topic of the other cluster, which is written and changed there."""
        if topic is not None and topic.upstream:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Topic '{topic.name}' is in the Kafka cluster at {self.upstream_addresses}: connect to it "
                "to produce to the topic, to consume it without a share group, or to change it.",
            )

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """Returns the configs set on a resource, without defaults."""
        if resource.type is ResourceType.TOPIC:
            topic = self.topic(resource.name)
            return topic.configs if topic else _NONE
        return self.dynamic_configs.get(resource, _NONE)

    def configured(self, kind: ResourceType) -> list[str]:
        """Returns the names of groups or brokers with configs, whether or not they exist (Kafka RPC 74)."""
        return sorted(resource.name for resource in self.dynamic_configs if resource.type is kind)

    def groups_with(self, key: str) -> list[str]:
        """Returns the names of the groups that set a config, one of INDEXED."""
        return sorted(self._groups_with[key])

    def configured_count(self) -> int:
        """Returns the number of groups and brokers with configs."""
        return len(self.dynamic_configs)

    def settings(self) -> set[tuple[ConfigResource, str]]:
        """Returns every config of a group or a broker, without its value."""
        return {(resource, key) for resource, configs in self.dynamic_configs.items() for key in configs}

    @singledispatchmethod
    def _apply(self, record: CatalogRecord) -> None:
        raise NotImplementedError(record)

    @_apply.register
    def _(self, record: TopicRecord) -> None:
        topic = record.topic
        self._put(topic)
        self._ids[topic.name] = topic.topic_id
        self._metric_names[metric_name(topic.name)] = topic.name

    # A log trimmed after a deletion may still contain changes of the deleted topic; they are ignored.
    @_apply.register
    def _(self, record: PartitionsRecord) -> None:
        topic = self._topics.get(record.topic_id)
        if topic is not None:
            self._put(replace(topic, partitions=record.partitions))

    @_apply.register
    def _(self, record: TopicDeletedRecord) -> None:
        topic = self._topics.pop(record.topic_id, None)
        if topic is not None:
            self.partitions -= topic.partitions
            del self._ids[topic.name]
            del self._metric_names[metric_name(topic.name)]
        self._deleted.pop(self.dropped_by(record.topic_id), None)
        self._deleted.pop(record.topic_id, None)
        self._deleted[record.topic_id] = None

    @_apply.register
    def _(self, record: ConfigRecord) -> None:
        changed = dict(self.configs(record.resource))
        changed.pop(record.key, None)
        if record.value is not None:
            changed[record.key] = record.value
        if record.resource.type is ResourceType.TOPIC:
            topic = self.topic(record.resource.name)
            if topic is not None:
                self._topics[topic.topic_id] = replace(topic, configs=changed)
            return
        if changed:
            self.dynamic_configs[record.resource] = changed
        else:
            self.dynamic_configs.pop(record.resource, None)
        if record.resource.type is ResourceType.GROUP and record.key in self._groups_with:
            groups, name = self._groups_with[record.key], record.resource.name
            (groups.discard if record.value is None else groups.add)(name)

    @_apply.register
    def _(self, record: ClusterRecord) -> None:
        self.cluster_id = record.cluster_id
        self.feature_levels = record.feature_levels
        self.features_epoch = max(record.features_epoch, 1)
        self.upstream_addresses = record.upstream_addresses
        self.upstream_cluster_id = record.upstream_cluster_id

    @_apply.register(ScramCredentialRecord)
    @_apply.register(ScramCredentialDeletedRecord)
    def _(self, record: ScramCredentialRecord | ScramCredentialDeletedRecord) -> None:
        self.users.apply(record)
        self.access_changes += 1

    @_apply.register(AclRecord)
    @_apply.register(AclDeletedRecord)
    def _(self, record: AclRecord | AclDeletedRecord) -> None:
        apply_acl(self.acls, record)
        self.access_changes += 1

    @_apply.register
    def _(self, record: QuotaRecord) -> None:
        self.quotas.apply(record)

    def _put(self, topic: Topic) -> None:
        before = self._topics.get(topic.topic_id)
        self.partitions += topic.partitions - (before.partitions if before is not None else 0)
        self._topics[topic.topic_id] = topic


def metric_name(topic: str) -> str:
    """Returns a topic's name as it appears in metric names."""
    return topic.replace(".", "_")
