"""Durable facts about the cluster, one record a fact, and the values they fold to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b


class ResourceType(IntEnum):
    """What a configuration belongs to (Kafka: `ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, a group by id, a broker by number ("" for all brokers)."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `topic_id` is Kafka's text of 16 bytes; `created_ms` since the Unix epoch."""

    topic_id: str
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    @property
    def fingerprint(self) -> int:
        """64 bits over what an assignment depends on: name, id, number of partitions."""
        text = f"{self.name}\0{self.topic_id}\0{self.partitions}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic as it is from here on, whatever was said of it before."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionsRecord:
    """A topic's new number of partitions."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord:
    """A topic is gone; its id never comes back. `partitions` is how many logs there are to remove."""

    topic_id: str
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One setting of a resource; `value` None puts it back to its default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster's id."""

    cluster_id: str


CatalogRecord = TopicRecord | PartitionsRecord | TopicDeletedRecord | ConfigRecord | ClusterRecord
