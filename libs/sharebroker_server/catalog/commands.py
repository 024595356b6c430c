"""What the catalog can be asked to change. A command is about one thing, so that each has its own result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharebroker_server.catalog.records import ConfigResource


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
class ListEdit:
    """Parts that are added to a property that is a list, or taken out of it."""

    parts: str
    subtract: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Sets each value, edits it, or puts it back to its default where it is None.

    What is not named stays; where the command `replaces` all settings it goes back to its default too.
    """

    resource: ConfigResource
    changes: Mapping[str, str | ListEdit | None]
    validate_only: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Gives the cluster its id unless it has one."""

    cluster_id: str


CatalogCommand = CreateTopic | DeleteTopic | CreatePartitions | AlterConfigs | NameCluster
