"""What `Admin` answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic; `configs` are the values that differ from the defaults."""

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting of a topic, a group or the brokers."""

    name: str
    value: str
    is_default: bool
    documentation: str


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as listed; `state` is "Stable" or "Empty"."""

    group_id: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group; `assignment` maps topic names to partitions."""

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    topics: frozenset[str]
    assignment: Mapping[str, tuple[int, ...]]
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where a group stands in a partition; None is not known (no state was written yet)."""

    start_offset: int | None
    lag: int | None
    leader_epoch: int
