"""The durable records of the catalog, and the values that they build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b


class ResourceType(IntEnum):
    """The kind of resource that has configs (Kafka: `ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, a group by id, or a broker by number ("" for all brokers)."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `topic_id` is the text of 16 bytes, as in Kafka; `created_ms` is since the Unix epoch."""

    topic_id: str
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    @property
    def fingerprint(self) -> int:
        """A 64-bit hash of the properties on which assignments depend: name, id, number of partitions."""
        text = f"{self.name}\0{self.topic_id}\0{self.partitions}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic's complete state; replaces earlier records of it."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionsRecord:
    """A topic's new number of partitions."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord:
    """A topic's deletion; its id is never reused. `partitions` is the number of logs to remove."""

    topic_id: str
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One config of a resource; `value` None resets it to its default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster id."""

    cluster_id: str


CatalogRecord = TopicRecord | PartitionsRecord | TopicDeletedRecord | ConfigRecord | ClusterRecord
