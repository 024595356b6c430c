"""What the catalog can be asked to change. A command is about one thing, so that each has its own result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.catalog.records import ConfigResource


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """`topic_id` is drawn by the caller; `partitions` 0 or -1 takes the broker's `num.partitions`."""

    name: str
    topic_id: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """By name, or by id where the name is empty."""

    name: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """`count` is the new total."""

    name: str
    count: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Sets each value, or puts it back to its default where it is None; what is not named stays."""

    resource: ConfigResource
    changes: Mapping[str, str | None]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Gives the cluster its id unless it has one."""

    cluster_id: str


CatalogCommand = CreateTopic | DeleteTopic | CreatePartitions | AlterConfigs | NameCluster
