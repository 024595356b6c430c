"""A share group: members, assignments, share state; and the records that change it.

A record replaces the record before it with the same `key` (Kafka: record keys 10 to 15 of
`__consumer_offsets`). `apply_to` is the only code that changes a group. A decision works on a copy, a
`PendingGroup`, to which it applies its own records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Final

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.sessions import Silence

Assignment = Mapping[str, frozenset[int]]
"""Partitions by topic id; a topic without partitions is absent."""

POLICY: Final = -1
"""A start offset that the leader resolves by `share.auto.offset.reset` at its first fetch."""


Key = tuple[str, str, str]
"""Kind of record, group id, member id ("" for records about the group)."""


class GroupState(Enum):
    """Kafka's ShareGroupState, with Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member's heartbeats state.

    `stream_id` names the stream that last joined as this member, if any. Only `principal` may send the
    member's heartbeats; "" is unknown.
    """

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed: frozenset[str]
    stream_id: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its profile, its target assignment, and the current assignment it received last.

    `epoch` is the assignment epoch of the current assignment and `previous_epoch` the one before. Heartbeats
    with either are valid, since the last response may have been lost. `silence` is None if no silence was
    stored since the last heartbeat.
    """

    profile: Profile
    target: Assignment = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)
    silence: Silence | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """The share state of one topic in a group.

    Times are milliseconds since the Unix epoch. `known_since` is when the group first used the topic;
    `initializing` maps partitions to the time from which they are to be initialised. A partition with a later
    time than the topic was added to it, and starts at its first record. State with an epoch below
    `since_epoch` was deleted; if it exists, a delayed request recreated it.
    """

    name: str
    known_since: int
    initializing: Mapping[int, int] = field(default_factory=dict)
    initialized: frozenset[int] = frozenset()
    deleting: frozenset[int] = frozenset()
    since_epoch: int = 0

    def start_offset(self, partition: int) -> int:
        """Returns the start offset of a partition that is to be initialised."""
        return 0 if self.initializing[partition] > self.known_since else POLICY

    @property
    def partitions(self) -> frozenset[int]:
        """All partitions that may have state."""
        return self.initialized | self.initializing.keys() | self.deleting


@dataclass(slots=True, eq=False)
class ShareGroup:
    """A share group.

    `epoch` rises with every change that requires a new assignment; `assignment_epoch` reaches it when the
    assignor has run. `metadata_hash` covers the subscribed topics at `epoch`. `revision` rises with every
    applied record. All deleted state, of this group or of an earlier group with its id, has an epoch below
    `since_epoch`.
    """

    group_id: str
    epoch: int = 0
    since_epoch: int = -1
    metadata_hash: int = 0
    assignment_epoch: int = 0
    revision: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    _subscribed: Set[str] | None = None
    _covered: Mapping[str, Set[int]] | None = None

    def __post_init__(self) -> None:
        if self.since_epoch < 0:
            self.since_epoch = self.epoch + 1

    def members_changed(self) -> None:
        """Invalidates what is cached about members, subscriptions and targets."""
        self._subscribed = self._covered = None

    def copy(self) -> ShareGroup:
        """Returns a group that can change independently: members and topics are values."""
        # A decision works on a copy: compute the caches in the original, where they are kept.
        return replace(
            self,
            members=dict(self.members),
            topics=dict(self.topics),
            _subscribed=self.subscribed,
            _covered=self.covered,
        )

    @property
    def converged(self) -> bool:
        """Whether the target assignment is up to date and no share state is being changed."""
        return self.assignment_epoch == self.epoch and not any(
            state.initializing or state.deleting for state in self.topics.values()
        )

    @property
    def state(self) -> GroupState:
        """Kafka's ShareGroupState."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def subscribed(self) -> Set[str]:
        """Names of all topics to which any member is subscribed."""
        if self._subscribed is None:
            self._subscribed = set[str]().union(
                *(member.profile.subscribed for member in self.members.values())
            )
        return self._subscribed

    @property
    def covered(self) -> Mapping[str, Set[int]]:
        """Partitions in the target assignment of any member, by topic id."""
        if self._covered is None:
            covered: dict[str, set[int]] = {}
            for member in self.members.values():
                for topic_id, partitions in member.target.items():
                    covered.setdefault(topic_id, set()).update(partitions)
            self._covered = covered
        return self._covered


def partitions_of(assignment: Assignment) -> Iterator[TopicIdPartition]:
    """Returns the partitions of an assignment one by one."""
    return (
        TopicIdPartition(topic_id, partition)
        for topic_id, partitions in assignment.items()
        for partition in partitions
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[str, frozenset[int]]:
    """Returns the assignment that consists of `partitions`."""
    numbers: dict[str, set[int]] = {}
    for topic_id, partition in partitions:
        numbers.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(found) for topic_id, found in numbers.items()}


class _Keyed:
    """A record that replaces the record before it with the same key."""

    __slots__ = ()

    kind: ClassVar[str]

    @property
    def key(self) -> Key:
        """The key of the record."""
        return (self.kind, getattr(self, "group_id", ""), getattr(self, "member_id", ""))


@dataclass(frozen=True, slots=True)
class GroupRecord(_Keyed):
    """The group epoch; None for `epoch` deletes the group and all its records.

    All deleted state has an epoch below `since_epoch`.
    """

    kind: ClassVar = "group"
    group_id: str
    epoch: int | None
    metadata_hash: int = 0
    since_epoch: int = 0


@dataclass(frozen=True, slots=True)
class MemberRecord(_Keyed):
    """A member's profile and silence; None for `profile` deletes the member and all its records."""

    kind: ClassVar = "member"
    group_id: str
    member_id: str
    profile: Profile | None
    silence: Silence | None = None


@dataclass(frozen=True, slots=True)
class TargetEpochRecord(_Keyed):
    """The group epoch for which the target assignment was made."""

    kind: ClassVar = "target epoch"
    group_id: str
    assignment_epoch: int


@dataclass(frozen=True, slots=True)
class TargetRecord(_Keyed):
    """A member's target assignment."""

    kind: ClassVar = "target"
    group_id: str
    member_id: str
    target: Assignment


@dataclass(frozen=True, slots=True)
class CurrentRecord(_Keyed):
    """A member's current assignment, and its member epochs."""

    kind: ClassVar = "current"
    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    assigned: Assignment


@dataclass(frozen=True, slots=True)
class StateRecord(_Keyed):
    """The partitions with share state, by topic id."""

    kind: ClassVar = "state"
    group_id: str
    topics: Mapping[str, TopicState]


@dataclass(frozen=True, slots=True)
class FloorRecord(_Keyed):
    """The highest epoch of all deleted groups; new groups start above it.

    A delayed write for a deleted group is therefore older than any state of the next group with its id.
    """

    kind: ClassVar = "floor"
    epoch: int


ShareGroupRecord = GroupRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | StateRecord

_NO_PROFILE: Final = Profile(None, "", "", frozenset())


def apply_to(group: ShareGroup, record: ShareGroupRecord) -> None:
    """Applies a record of this group; a GroupRecord that deletes the group empties it."""
    match record:
        case GroupRecord(_, epoch, metadata_hash, since_epoch):
            if epoch is None:
                group.members.clear()
                group.members_changed()
                group.topics.clear()
                group.assignment_epoch = 0
            group.epoch, group.metadata_hash, group.since_epoch = epoch or 0, metadata_hash, since_epoch
        case MemberRecord(_, member_id, None):
            group.members.pop(member_id, None)
            group.members_changed()
        case MemberRecord(_, member_id, Profile() as profile, silence):
            if not only_silence(group, record):
                group.members_changed()
            group.members[member_id] = replace(_existing(group, member_id), profile=profile, silence=silence)
        case TargetEpochRecord(_, assignment_epoch):
            group.assignment_epoch = assignment_epoch
        case TargetRecord(_, member_id, target):
            group.members[member_id] = replace(_existing(group, member_id), target=target)
            group.members_changed()
        case CurrentRecord(_, member_id, epoch, previous_epoch, assigned):
            group.members[member_id] = replace(
                _existing(group, member_id), epoch=epoch, previous_epoch=previous_epoch, assigned=assigned
            )
        case StateRecord(_, topics):
            group.topics = dict(topics)


def only_silence(group: ShareGroup, record: ShareGroupRecord) -> bool:
    """Returns whether a record changes nothing of the group but the stored silence of a member."""
    if not isinstance(record, MemberRecord) or record.member_id not in group.members:
        return False
    return group.members[record.member_id].profile == record.profile


def _existing(group: ShareGroup, member_id: str) -> Member:
    # In a trimmed log the assignment of a member may precede its profile.
    return group.members.get(member_id) or Member(_NO_PROFILE)


class PendingGroup:
    """Collects the records of a decision. `group` is a copy with them applied; the original never changes.

    `raised` counts the epochs that the decision adds.
    """

    __slots__ = ("group", "raised", "records")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[ShareGroupRecord] = []
        self.raised = 0

    def add(self, record: ShareGroupRecord) -> None:
        """Adds a record to the decision and applies it to the copy."""
        if not self.records:
            self.group = self.group.copy()
        self.records.append(record)
        apply_to(self.group, record)

    def raise_epoch(self, metadata_hash: int | None = None) -> None:
        """Raises the group epoch by one.

        `metadata_hash` replaces the hash of the subscribed topics if given.
        """
        group = self.group
        seen = group.metadata_hash if metadata_hash is None else metadata_hash
        self.raised += 1
        self.add(GroupRecord(group.group_id, group.epoch + 1, seen, group.since_epoch))
