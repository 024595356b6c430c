"""Commands about share groups, their replies, and the soft changes and effects of decisions about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Effect, SoftChange
from sharebroker_server.group_coordinator.core.deadlines import MemberSession
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment, ShareGroup
from sharebroker_server.group_coordinator.core.share_groups.sessions import Observation

LEAVE = -1
"""The member epoch of a member that leaves."""


HeartbeatStamp = tuple[int, int, int]
"""Member epoch, group revision, view revision: while it is unchanged, so is the reply to a heartbeat."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A share group member's heartbeat; the reply is a `HeartbeatReply`.

    `member_epoch` is 0 to join, -1 to leave, else the epoch of the last response. `topics` and `rack_id` are
    None if unchanged. `stream_id` names the stream for which a gateway sends the heartbeat, `principal`
    its caller; "" is unknown.
    """

    group_id: str
    member_id: str
    member_epoch: int
    topics: tuple[str, ...] | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    stream_id: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class UnchangedHeartbeat:
    """A heartbeat equal to the member's last one. The reply True means that the last response still holds.

    Then only the session is extended. False: the caller must send a Heartbeat.
    """

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class InitializeState:
    """Partitions whose share state is to be initialised now, with their start offsets.

    `since_epochs`, by topic id: state that was initialised with this epoch or a later one, without the group
    recording it, is kept.
    """

    group_id: str
    state_epoch: int
    start_offsets: Mapping[TopicIdPartition, int]
    since_epochs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The result of a heartbeat; `assignment` is None if unchanged.

    `initialize` is share state that the caller must have initialised. `pending`: state of topics to which
    the member subscribes is being initialised; a second heartbeat afterwards returns more partitions.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    initialize: InitializeState | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True)
class StateInitialized:
    """The outcome of an initialisation, by partition."""

    group_id: str
    done: frozenset[TopicIdPartition]
    failed: frozenset[TopicIdPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Requests a copy of the `ShareGroup`. Raises GROUP_ID_NOT_FOUND, INVALID_GROUP_ID."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Requests the states of all share groups by group id."""


@dataclass(frozen=True, slots=True)
class ListOffsetPartitions:
    """Requests the partitions with share state, by topic id; an unknown group has none."""

    group_id: str


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Changes start offsets of a group without members, by topic name and partition; may create the group.

    With `group_epoch`, here and in the other administrative commands, only if the group is at this epoch; 0
    means that it does not exist.
    """

    group_id: str
    offsets: Mapping[tuple[str, int], int]
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """The state to initialise, and the rejected partitions."""

    initialize: InitializeState
    rejected: Mapping[tuple[str, int], KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Deletes the state of topics of a group without members."""

    group_id: str
    topics: tuple[str, ...]
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Deletes a group without members."""

    group_id: str
    group_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Partitions whose state is to be deleted and then reported with `StateDeleted`; rejected topics by name.

    State with a higher epoch than `state_epoch` is newer than the deletion and must be kept.
    """

    partitions: frozenset[TopicIdPartition]
    state_epoch: int
    rejected: Mapping[str, KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateDeleted:
    """The outcome of a deletion, by partition. The reply is whether the group is deleted.

    With `with_group` the group is deleted too if it has neither state nor members.
    """

    group_id: str
    done: frozenset[TopicIdPartition]
    failed: frozenset[TopicIdPartition] = frozenset()
    with_group: bool = False


ShareGroupCommand = (
    Heartbeat
    | UnchangedHeartbeat
    | StateInitialized
    | DescribeGroup
    | ListGroups
    | ListOffsetPartitions
    | AlterOffsets
    | DeleteOffsets
    | DeleteGroup
    | StateDeleted
)

ShareGroupReply = (
    HeartbeatReply | ShareGroup | Mapping[str, str] | Assignment | AlterPlan | DeletePlan | bool | None
)


@dataclass(frozen=True, slots=True)
class SessionObserved(SoftChange):
    """The coordinator awaits the next heartbeat of a member, and checks its session at `check_at`."""

    session: MemberSession
    observation: Observation
    check_at: float


@dataclass(frozen=True, slots=True)
class HeartbeatStamped(SoftChange):
    """A heartbeat changed nothing; the next one with the same stamp will not either."""

    session: MemberSession
    stamp: HeartbeatStamp


@dataclass(frozen=True, slots=True)
class TargetAssigned(SoftChange):
    """The assignor ran: the next run may follow after the assignment interval."""

    group_id: str
    at: float


@dataclass(frozen=True, slots=True)
class StateChangeBegun(SoftChange):
    """The service initialises or deletes the state of these partitions; `until` bounds how long."""

    group_id: str
    partitions: frozenset[TopicIdPartition]
    until: float

    @staticmethod
    def of(group_id: str, partitions: Iterable[TopicIdPartition], until: float) -> tuple[SoftChange, ...]:
        """Returns the change; none without partitions."""
        changing = frozenset(partitions)
        return (StateChangeBegun(group_id, changing, until),) if changing else ()


@dataclass(frozen=True, slots=True)
class StateChangeEnded(SoftChange):
    """The service reported the outcome for these partitions."""

    group_id: str
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class MemberFenced(Effect):
    """The session of a member timed out: leaders release the records it holds."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class Rebalanced(Effect):
    """The epochs of groups were raised `count` times."""

    count: int


def rebalanced(count: int) -> tuple[Effect, ...]:
    """Returns the effect; none for a count of 0."""
    return (Rebalanced(count),) if count else ()
