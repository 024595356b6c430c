"""Soft changes and effects of decisions about share groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Effect, SoftChange
from sharebroker_server.group_coordinator.core.session_clocks import Session

HeartbeatStamp = tuple[int, int, int]
"""Member epoch, group revision, view revision: while it is unchanged, so is the reply to a heartbeat."""


@dataclass(frozen=True, slots=True)
class SessionExtended(SoftChange):
    """A heartbeat arrived: the member is fenced at `deadline`, not before."""

    session: Session
    deadline: float


@dataclass(frozen=True, slots=True)
class HeartbeatStamped(SoftChange):
    """A heartbeat changed nothing; the next one with the same stamp will not either."""

    session: Session
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
