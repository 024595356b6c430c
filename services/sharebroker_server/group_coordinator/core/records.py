"""Durable facts about groups. Each replaces the one before it with the same `key`.

Kafka: record keys 10 to 15 of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharebroker_server.group_coordinator.core.consumers.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.consumers.pending import PendingRecord, TransactionEndRecord
from sharebroker_server.group_coordinator.core.model import Assignment, Profile, TopicState

Key = tuple[str, str, str]
"""Kind of record, group id, member id ("" for facts about the group)."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Epoch of the group; None for `epoch` when the group and all about it is gone.

    State that was ever deleted is older than `since_epoch`.
    """

    group_id: str
    epoch: int | None
    metadata_hash: int = 0
    since_epoch: int = 0

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("group", self.group_id, "")


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What a member says of itself; None when the member and all about it is gone."""

    group_id: str
    member_id: str
    profile: Profile | None

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("member", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    """The epoch that the target assignment was made for."""

    group_id: str
    assignment_epoch: int

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("target epoch", self.group_id, "")


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """What a member is to have."""

    group_id: str
    member_id: str
    target: Assignment

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("target", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class CurrentRecord:
    """What a member has been told that it has, and at which epoch."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    assigned: Assignment

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("current", self.group_id, self.member_id)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """Which partitions have share state, by topic id."""

    group_id: str
    topics: Mapping[str, TopicState]

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("state", self.group_id, "")


@dataclass(frozen=True, slots=True)
class FloorRecord:
    """The highest epoch of all groups that were deleted. What is late of one of them is older than any
    state of the group that has its id next.
    """

    epoch: int

    @property
    def key(self) -> Key:
        """See `Key`."""
        return ("floor", "", "")


OfGroup = GroupRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | StateRecord
Record = OfGroup | FloorRecord | OffsetRecord | PendingRecord | TransactionEndRecord
