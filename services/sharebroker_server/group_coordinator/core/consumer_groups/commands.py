"""Commands about consumer groups, and their replies. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition

Protocols = tuple[tuple[str, bytes], ...]
"""Assignors in a member's order of preference, each with the member's metadata for it."""


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """A member and the generation it belongs to; -1 and an empty member id for a client that is no member."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A member joins, or joins again. The reply is a `Joined`, possibly deferred under `reply_id`.

    A new member gets the id `fresh_id`. With `must_be_known` it receives MEMBER_ID_REQUIRED with that id
    first, and joins again with it.
    """

    group_id: str
    member_id: str
    fresh_id: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Protocols
    reply_id: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    must_be_known: bool = False

    def with_rebalance_timeout(self) -> Join:
        """Returns the command with a rebalance timeout, which version 0 of JoinGroup lacks."""
        return self if self.rebalance_timeout > 0 else replace(self, rebalance_timeout=self.session_timeout)


@dataclass(frozen=True, slots=True)
class Sync:
    """A member requests its part of the assignment; the leader's request contains all parts.

    The reply is a `Synced`, possibly deferred under `reply_id`.
    """

    member: MemberIdentity
    assignments: Mapping[str, bytes]
    reply_id: int
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A consumer group member's heartbeat.

    The reply is REBALANCE_IN_PROGRESS if the member must join again.
    """

    member: MemberIdentity


class Leaver(NamedTuple):
    """A member by its id, or by its instance id if the member id is empty."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Members leave. The reply has the error of each, or None."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset. `at_ms` is when it was committed, in milliseconds since the Unix epoch."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    at_ms: int = 0

    def stamped(self, now: float) -> Committed:
        """Returns the offset as committed now."""
        return replace(self, at_ms=int(now * 1000))


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commits offsets. The reply has the errors of rejected ones."""

    member: MemberIdentity
    offsets: Mapping[TopicIdPartition, Committed]


@dataclass(frozen=True, slots=True)
class CommitInTransaction:
    """Adds offsets to the producer's transaction. The reply has the errors of rejected ones.

    `coordinator_epoch` is the epoch of the transaction coordinator that confirmed the open transaction. None:
    not confirmed, which is enough if the transaction has offsets in this shard already.
    """

    member: MemberIdentity
    producer_id: int
    producer_epoch: int
    offsets: Mapping[TopicIdPartition, Committed]
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CompleteTransaction:
    """Commits or drops the pending offsets of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Requests the `GroupOffsets` of a group."""

    group_id: str


class GroupOffsets(NamedTuple):
    """The committed offsets of a group, and the partitions with pending offsets."""

    committed: Mapping[TopicIdPartition, Committed]
    unstable: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class ForgetOffsets:
    """Deletes committed offsets of a group without members."""

    group_id: str
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class DescribeConsumers:
    """Requests a `ConsumersDescription`. Raises GROUP_ID_NOT_FOUND."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ListConsumers:
    """Requests state and protocol type of every consumer group, by group id."""


class JoinedMember(NamedTuple):
    """A member as listed for the leader's assignor."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """A member's place in a generation. `members` is for the leader, which assigns the partitions."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's part of the assignment."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Deferred:
    """The reply follows as a `DeferredReply` with the command's `reply_id`."""


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """A member with its metadata for the assignor and its part of the assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ConsumersDescription:
    """The current state of a consumer group."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedConsumer, ...]


ConsumerCommand = (
    Join
    | Sync
    | ConsumerHeartbeat
    | Leave
    | CommitOffsets
    | CommitInTransaction
    | CompleteTransaction
    | FetchOffsets
    | ForgetOffsets
    | DescribeConsumers
    | ListConsumers
)

DeferredResult = Joined | Synced | KafkaError
"""The content of a deferred reply."""

ConsumerReply = (
    Joined
    | Synced
    | Deferred
    | ConsumersDescription
    | tuple[KafkaError | None, ...]
    | GroupOffsets
    | Mapping[TopicIdPartition, KafkaError]
    | Mapping[str, tuple[str, str]]
    | KafkaError
    | None
)
