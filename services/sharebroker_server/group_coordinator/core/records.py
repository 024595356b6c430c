"""Records of groups. Each replaces the record before it with the same `key`.

Kafka: record keys 10 to 15 of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.consumer_groups.pending import (
    PendingRecord,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.core.share_groups.model import Assignment, Profile, TopicState

Key = tuple[str, str, str]
"""Kind of record, group id, member id ("" for records about the group)."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The group epoch; None for `epoch` deletes the group and all its records.

    All deleted state has an epoch below `since_epoch`.
    """

    group_id: str
    epoch: int | None
    metadata_hash: int = 0
    since_epoch: int = 0

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("group", self.group_id, "")


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member's profile; None deletes the member and all its records."""

    group_id: str
    member_id: str
    profile: Profile | None

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("member", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    """The group epoch for which the target assignment was made."""

    group_id: str
    assignment_epoch: int

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("target epoch", self.group_id, "")


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A member's target assignment."""

    group_id: str
    member_id: str
    target: Assignment

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("target", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class CurrentRecord:
    """A member's current assignment, and its member epochs."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    assigned: Assignment

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("current", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The partitions with share state, by topic id."""

    group_id: str
    topics: Mapping[str, TopicState]

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("state", self.group_id, "")


@dataclass(frozen=True, slots=True)
class FloorRecord:
    """The highest epoch of all deleted groups; new groups start above it.

    A delayed write for a deleted group is therefore older than any state of the next group with its id.
    """

    epoch: int

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("floor", "", "")


ShareGroupRecord = GroupRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | StateRecord
Record = ShareGroupRecord | FloorRecord | OffsetRecord | PendingRecord | TransactionEndRecord
