"""What the catalog's log folds to: topics, settings, the cluster's id. Pure; only `apply` changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatchmethod
from typing import Final

from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)

DELETED_KEPT: Final = 10_000
"""How many ids of deleted topics are remembered, latest first."""

_NONE: Final[Mapping[str, str]] = {}


class TopicCatalog:
    """What the cluster consists of, as of the record at `position` of the catalog's log."""

    __slots__ = (
        "_configs",
        "_deleted",
        "_ids",
        "_metric_names",
        "_topics",
        "cluster_id",
        "partitions",
        "position",
    )

    def __init__(self) -> None:
        self.cluster_id = ""
        self.position = 0
        self.partitions = 0
        """Of all topics together."""
        self._topics: dict[str, Topic] = {}
        self._ids: dict[str, str] = {}
        self._metric_names: dict[str, str] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._deleted: dict[str, None] = {}

    def apply(self, record: CatalogRecord, position: int) -> None:
        """Takes the record at `position` in."""
        self._apply(record)
        self.position = position

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._topics.get(self._ids.get(name, ""))

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """The topic of this id."""
        return self._topics.get(topic_id)

    def topics(self) -> Iterable[Topic]:
        """All topics, by name."""
        return (self._topics[self._ids[name]] for name in sorted(self._ids))

    def topic_like(self, name: str) -> Topic | None:
        """A topic of the same name where "." and "_" count as one, as they do in names of metrics."""
        return self.topic(self._metric_names.get(metric_name(name), ""))

    def is_deleted(self, topic_id: str) -> bool:
        """Whether a topic of this id existed and is gone; False also for an id not heard of yet."""
        return topic_id in self._deleted

    def deleted(self) -> Iterable[str]:
        """Ids of deleted topics, latest last."""
        return self._deleted

    def forgotten_by(self, topic_id: str) -> str:
        """The deleted topic that is remembered no longer once `topic_id` is deleted too; "" for none."""
        if topic_id in self._deleted or len(self._deleted) < DELETED_KEPT:
            return ""
        return next(iter(self._deleted))

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """What is set on a resource, defaults left out."""
        if resource.type is ResourceType.TOPIC:
            topic = self.topic(resource.name)
            return topic.configs if topic else _NONE
        return self._configs.get(resource, _NONE)

    def configured(self, kind: ResourceType) -> list[str]:
        """Names of groups or brokers that have settings, whether or not they exist (Kafka RPC 74)."""
        return sorted(resource.name for resource in self._configs if resource.type is kind)

    def configured_count(self) -> int:
        """How many groups and brokers have settings."""
        return len(self._configs)

    def settings(self) -> set[tuple[ConfigResource, str]]:
        """Every setting of a group or a broker, without its value."""
        return {(resource, key) for resource, configs in self._configs.items() for key in configs}

    @singledispatchmethod
    def _apply(self, record: CatalogRecord) -> None:
        raise NotImplementedError(record)

    @_apply.register
    def _(self, record: TopicRecord) -> None:
        topic = record.topic
        self._put(topic)
        self._ids[topic.name] = topic.topic_id
        self._metric_names[metric_name(topic.name)] = topic.name

    # A log trimmed behind a deletion may still hold changes of the deleted topic: they are of nothing.
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
        self._deleted.pop(self.forgotten_by(record.topic_id), None)
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
        elif changed:
            self._configs[record.resource] = changed
        else:
            self._configs.pop(record.resource, None)

    @_apply.register
    def _(self, record: ClusterRecord) -> None:
        self.cluster_id = record.cluster_id

    def _put(self, topic: Topic) -> None:
        before = self._topics.get(topic.topic_id)
        self.partitions += topic.partitions - (before.partitions if before is not None else 0)
        self._topics[topic.topic_id] = topic


def metric_name(topic: str) -> str:
    """A topic's name as metrics show it."""
    return topic.replace(".", "_")
