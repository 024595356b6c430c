"""Names of resources, and the role that owns each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CATALOG: Final = "catalog"
"""The only resource of its kind: topics and configurations."""

GROUP_COORDINATOR: Final = "group-coordinator"
"""The kind of the group coordinator's shards, and the name of the role."""

SHARE_COORDINATOR: Final = "share-coordinator"
"""The kind of the share coordinator's shards, and the name of the role."""

TRANSACTIONS: Final = "transaction-coordinator"
"""The kind of the transaction coordinator's shards."""

IMPORT: Final = "import"
"""The only resource of its kind: an import holds it, so that there is one at a time."""

PARTITION: Final = "partition"
"""The kind of partitions of topics."""

ROLE_BY_KIND: Final[Mapping[str, str]] = {
    CATALOG: GROUP_COORDINATOR,
    GROUP_COORDINATOR: GROUP_COORDINATOR,
    TRANSACTIONS: GROUP_COORDINATOR,
    SHARE_COORDINATOR: SHARE_COORDINATOR,
    PARTITION: "share-partition-leader",
}
"""The role that owns the resources of each kind."""

COORDINATORS: Final = frozenset({GROUP_COORDINATOR, SHARE_COORDINATOR})
"""The roles whose resources an import takes over."""

Shard = int | str
"""Where share state is stored: a number, of a share coordinator's shard; a text, the resource of the
partition whose log has the state."""


def shard(role: str, index: int) -> str:
    """Returns the resource of a coordinator's shard: "share-coordinator:7"."""
    return f"{role}:{index}"


def shards(role: str, count: int) -> list[str]:
    """Returns the resources of the `count` shards of a coordinator."""
    return [shard(role, index) for index in range(count)]


def partition(topic_id: str, index: int) -> str:
    """Returns the resource of a partition: "partition:<topic id>:<n>"."""
    return f"{PARTITION}:{topic_id}:{index}"


def topic_partition(resource: str) -> tuple[str, int]:
    """Returns the topic id and the partition number of a partition's resource."""
    _, topic_id, index = resource.split(":")
    return topic_id, int(index)


def partitions(topic_id: str, count: int) -> list[str]:
    """Returns the resources of the `count` partitions of a topic."""
    return [partition(topic_id, index) for index in range(count)]


def kind_of(resource: str) -> str:
    """Returns the kind of a resource: the text before the first colon."""
    return resource.partition(":")[0]
