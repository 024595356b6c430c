"""What a shard of the group coordinator is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumers.commands import ConsumerCommand, ConsumerReply
from sharebroker_server.group_coordinator.core.model import Assignment, Member

LEAVE = -1
"""The member epoch of a member that leaves."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`member_epoch` 0 joins, -1 leaves, else it is that of the last answer. `topics` None: not changed.

    `stream_id` is the stream for which a gateway sends it.
    """

    group_id: str
    member_id: str
    member_epoch: int
    topics: tuple[str, ...] | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    stream_id: str = ""


@dataclass(frozen=True, slots=True)
class Stay:
    """A heartbeat like the member's last one, and answered alike: True where nothing but its session is to be
    kept alive. False: it has to be sent as a Heartbeat.
    """

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class InitializeState:
    """Partitions whose share state is to be initialised now, each with its start offset.

    `since_epochs`, by topic id: where it was initialised before at such an epoch or a later one, and nobody
    noted it, it stays.
    """

    group_id: str
    state_epoch: int
    start_offsets: Mapping[TopicIdPartition, int]
    since_epochs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """`assignment` None: not changed. `initialize`: what the caller is to have initialised. `pending`: share
    state that the member waits for is being initialised, a second heartbeat after that brings more.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    initialize: InitializeState | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True)
class StateInitialized:
    """How an initialisation ended: partitions that have state now, and those that failed."""

    group_id: str
    done: frozenset[TopicIdPartition]
    failed: frozenset[TopicIdPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Asks for a `GroupDescription`. Raises GROUP_ID_NOT_FOUND, INVALID_GROUP_ID."""

    group_id: str


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as it stands."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    members: Mapping[str, Member]


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Asks for the states of all share groups by group id."""


@dataclass(frozen=True, slots=True)
class ListOffsetPartitions:
    """Asks for the partitions with share state, by topic id; a group that is not there has none."""

    group_id: str


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Moves start offsets of a group without members, by topic name and partition; makes it if need be.

    With `group_epoch`, as in other changes of its state, only of a group at this epoch; 0: that is not there.
    """

    group_id: str
    offsets: Mapping[tuple[str, int], int]
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """What to initialise, and what is refused."""

    initialize: InitializeState
    refused: Mapping[tuple[str, int], KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Forgets topics of a group without members."""

    group_id: str
    topics: tuple[str, ...]
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Forgets a group without members."""

    group_id: str
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Partitions whose state is to be deleted, then reported by `StateDeleted`; topics refused by name.

    State of a higher epoch than `state_epoch` will have come later, and is not to be touched.
    """

    partitions: frozenset[TopicIdPartition]
    state_epoch: int
    refused: Mapping[str, KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateDeleted:
    """How a deletion ended. With `with_group` the group goes too, if it has no state left and no members.

    The answer says whether the group is gone.
    """

    group_id: str
    done: frozenset[TopicIdPartition]
    failed: frozenset[TopicIdPartition] = frozenset()
    with_group: bool = False


Command = (
    Heartbeat
    | Stay
    | StateInitialized
    | DescribeGroup
    | ListGroups
    | ListOffsetPartitions
    | AlterOffsets
    | DeleteOffsets
    | DeleteGroup
    | StateDeleted
    | ConsumerCommand
)

Reply = (
    HeartbeatReply
    | GroupDescription
    | Mapping[str, str]
    | Assignment
    | AlterPlan
    | DeletePlan
    | bool
    | ConsumerReply
)
