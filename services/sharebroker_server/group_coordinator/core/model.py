"""What a share group is: its members, what they are to have and have, and the share state it knows of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from sharebroker_protocol.model import TopicIdPartition

Assignment = Mapping[str, frozenset[int]]
"""Partitions by topic id; no topic with none."""

POLICY: Final = -1
"""A start offset that the leader resolves by `share.auto.offset.reset` at its first fetch."""


class GroupState(Enum):
    """Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member says of itself. `stream_id`: the stream that joined last under its name, if one did."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed: frozenset[str]
    stream_id: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its profile, its share of the target assignment, and what it was last told.

    `epoch` is the assignment epoch it was brought to, `previous_epoch` the one before: a heartbeat with
    either is in order, for the answer to the last one may have been lost.
    """

    profile: Profile
    target: Assignment = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicState:
    """The share state of one topic, as far as the group has asked for it.

    `known_since` is when the group came to know the topic, `initializing` since when each partition is to be
    initialised, both in milliseconds since the Unix epoch: a partition that came later than the topic was
    added to it, and starts at its first record. State of an epoch before `since_epoch` was deleted, and
    came back by a late request.
    """

    name: str
    known_since: int
    initializing: Mapping[int, int] = field(default_factory=dict)
    initialized: frozenset[int] = frozenset()
    deleting: frozenset[int] = frozenset()
    since_epoch: int = 0

    def start_offset(self, partition: int) -> int:
        """Where a partition that is to be initialised starts."""
        return 0 if self.initializing[partition] > self.known_since else POLICY

    @property
    def partitions(self) -> frozenset[int]:
        """All that may have state, whatever it is going through."""
        return self.initialized | self.initializing.keys() | self.deleting


class ShareGroup:
    """A share group. `epoch` rises with every change that asks for a new assignment, `assignment_epoch`
    follows when there is one. `metadata_hash` is over the subscribed topics as the epoch saw them.
    `revision` rises with every record that is folded in. State that was ever deleted, of this group or of one
    before it under its id, is older than `since_epoch`.
    """

    __slots__ = (
        "_covered",
        "_subscribed",
        "assignment_epoch",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "revision",
        "since_epoch",
        "topics",
    )

    def __init__(self, group_id: str, epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self.since_epoch = epoch + 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.revision = 0
        self.members: dict[str, Member] = {}
        self.topics: dict[str, TopicState] = {}
        self.members_changed()

    def members_changed(self) -> None:
        """Members came or went, are subscribed to something else, or have another target."""
        self._subscribed: Set[str] | None = None
        self._covered: Mapping[str, Set[int]] | None = None

    def copy(self) -> ShareGroup:
        """A group that can be changed without this one: members and topics are values."""
        twin = ShareGroup(self.group_id)
        twin.epoch, twin.assignment_epoch = self.epoch, self.assignment_epoch
        twin.metadata_hash, twin.since_epoch = self.metadata_hash, self.since_epoch
        twin.members, twin.topics = dict(self.members), dict(self.topics)
        # Every heartbeat asks, and has a copy: what it would find out about all members stays here.
        twin._subscribed, twin._covered = self.subscribed, self.covered
        return twin

    @property
    def settled(self) -> bool:
        """Whether the target assignment is up to date, and all share state there."""
        return self.assignment_epoch == self.epoch and not any(
            state.initializing or state.deleting for state in self.topics.values()
        )

    @property
    def state(self) -> GroupState:
        """Kafka's ShareGroupState."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def subscribed(self) -> Set[str]:
        """Names of all topics any member is subscribed to."""
        if self._subscribed is None:
            self._subscribed = set[str]().union(*(one.profile.subscribed for one in self.members.values()))
        return self._subscribed

    @property
    def covered(self) -> Mapping[str, Set[int]]:
        """Partitions that are in some member's target, by topic id."""
        if self._covered is None:
            covered: dict[str, set[int]] = {}
            for member in self.members.values():
                for topic_id, partitions in member.target.items():
                    covered.setdefault(topic_id, set()).update(partitions)
            self._covered = covered
        return self._covered


def partitions_of(assignment: Assignment) -> Iterator[TopicIdPartition]:
    """The partitions of an assignment one by one."""
    return (
        TopicIdPartition(topic_id, partition) for topic_id, some in assignment.items() for partition in some
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[str, frozenset[int]]:
    """The assignment that consists of `partitions`."""
    gathered: dict[str, set[int]] = {}
    for topic_id, partition in partitions:
        gathered.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(some) for topic_id, some in gathered.items()}
