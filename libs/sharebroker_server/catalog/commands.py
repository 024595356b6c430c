"""The commands that change the catalog. Each names one object, so that each has its own result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharebroker_server.catalog.records import ConfigResource


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Creates a topic. The caller draws `topic_id`; `partitions` 0 or -1 means the broker's
    `num.partitions`.
    """

    name: str
    topic_id: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Deletes a topic by name, or by id if the name is empty."""

    name: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Raises the number of partitions to `count`."""

    name: str
    count: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ListEdit:
    """Items to add to a list property, or to remove from it."""

    items: str
    subtract: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Sets each value, edits it, or resets it to its default (None).

    Other configs remain; if `replaces` is true, they are reset to their defaults.
    """

    resource: ConfigResource
    changes: Mapping[str, str | ListEdit | None]
    validate_only: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Sets the cluster id if there is none."""

    cluster_id: str


CatalogCommand = CreateTopic | DeleteTopic | CreatePartitions | AlterConfigs | NameCluster
