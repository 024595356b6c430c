"""A share group: its members, their target and current assignments, and the share state that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from sharebroker_protocol.model import TopicIdPartition

Assignment = Mapping[str, frozenset[int]]
"""Partitions by topic id; a topic without partitions is absent."""

POLICY: Final = -1
"""A start offset that the leader resolves by `share.auto.offset.reset` at its first fetch."""


class GroupState(Enum):
    """Kafka's ShareGroupState, with Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member's heartbeats state.

    `stream_id` names the stream that last joined as this member, if any.
    """

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed: frozenset[str]
    stream_id: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its profile, its target assignment, and the current assignment it received last.

    `epoch` is the assignment epoch of the current assignment and `previous_epoch` the one before. Heartbeats
    with either are valid, since the last response may have been lost.
    """

    profile: Profile
    target: Assignment = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)


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


class ShareGroup:
    """A share group.

    `epoch` rises with every change that requires a new assignment; `assignment_epoch` reaches it when the
    assignor has run. `metadata_hash` covers the subscribed topics at `epoch`. `revision` rises with every
    applied record. All deleted state, of this group or of an earlier group with its id, has an epoch below
    `since_epoch`.
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
        """Invalidates what is cached about members, subscriptions and targets."""
        self._subscribed: Set[str] | None = None
        self._covered: Mapping[str, Set[int]] | None = None

    def copy(self) -> ShareGroup:
        """Returns a group that can change independently: members and topics are values."""
        copied = ShareGroup(self.group_id)
        copied.epoch, copied.assignment_epoch = self.epoch, self.assignment_epoch
        copied.metadata_hash, copied.since_epoch = self.metadata_hash, self.since_epoch
        copied.members, copied.topics = dict(self.members), dict(self.topics)
        # Every heartbeat works on a copy: compute the caches in the original, where they are kept.
        copied._subscribed, copied._covered = self.subscribed, self.covered
        return copied

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
