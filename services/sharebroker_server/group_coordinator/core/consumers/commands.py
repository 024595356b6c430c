"""What is asked about consumer groups, and what is answered. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition

Protocols = tuple[tuple[str, bytes], ...]
"""Assignors in a member's order of preference, each with what it is to know of the member."""


@dataclass(frozen=True, slots=True)
class MemberOf:
    """Who speaks, as a member of which generation; -1 with an empty member id: nobody's member."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A member joins, or joins again. One that has no id yet gets `fresh_id`; where it `must_be_known` it is
    refused with that id, and comes again with it. The answer is a `Joined`, at once or under the `ticket`.
    """

    group_id: str
    member_id: str
    fresh_id: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Protocols
    ticket: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    must_be_known: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """A member asks what it is assigned; the leader says what all are. A `Synced`, at once or later."""

    member: MemberOf
    assignments: Mapping[str, bytes]
    ticket: int
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class StayMember:
    """A heartbeat. Raises REBALANCE_IN_PROGRESS where the member is to join again."""

    member: MemberOf


class Leaver(NamedTuple):
    """A member by its id, by its instance id where the member id is empty."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Members leave; answered with what was wrong with each, None for nothing."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset that was committed: everything before it is done. `at_ms` is since the Unix epoch."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Keeps offsets; answered with those refused."""

    member: MemberOf
    offsets: Mapping[TopicIdPartition, Committed]


@dataclass(frozen=True, slots=True)
class CommitInTransaction:
    """Keeps offsets until the producer's transaction ends; answered with those refused.

    `coordinator_epoch` is that of the transaction's coordinator, which has confirmed that it goes on; None:
    it was not asked, and need not be where the transaction has offsets here already.
    """

    member: MemberOf
    producer_id: int
    producer_epoch: int
    offsets: Mapping[TopicIdPartition, Committed]
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CompleteTransaction:
    """What is pending of a producer's transaction counts from here on, or is dropped."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Asks for the `KeptOffsets` of a group."""

    group_id: str


class KeptOffsets(NamedTuple):
    """All that a group has committed, and of which partitions transactions may commit something else."""

    committed: Mapping[TopicIdPartition, Committed]
    unstable: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class ForgetOffsets:
    """Forgets offsets of a group without members."""

    group_id: str
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class DescribeConsumers:
    """Asks for a `ConsumersDescription`. Raises GROUP_ID_NOT_FOUND."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ListConsumers:
    """Asks for state and protocol type of every consumer group, by group id."""


class JoinedMember(NamedTuple):
    """A member as the leader's assignor gets to see it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """A member's place in a generation. `members` is for the leader, which is to assign the partitions."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """What a member is assigned."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Parked:
    """The answer comes later, under the command's ticket."""


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """A member with what its assignor was told, and what it is assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ConsumersDescription:
    """A consumer group as it stands."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedConsumer, ...]


ConsumerCommand = (
    Join
    | Sync
    | StayMember
    | Leave
    | CommitOffsets
    | CommitInTransaction
    | CompleteTransaction
    | FetchOffsets
    | ForgetOffsets
    | DescribeConsumers
    | ListConsumers
)

Answered = Joined | Synced | KafkaError
"""What comes under a ticket."""

ConsumerReply = (
    Joined
    | Synced
    | Parked
    | ConsumersDescription
    | tuple[KafkaError | None, ...]
    | KeptOffsets
    | Mapping[TopicIdPartition, KafkaError]
    | Mapping[str, tuple[str, str]]
    | None
)
