"""States of a member and all legal transitions (seed 003, "MemberState" diagram).

Two additions to the diagram. LEAVING and LEFT exist because a consumer can unsubscribe, close and subscribe
again. A member can be fenced while it reconciles, because any heartbeat response can fence it (Kafka: FENCED
is reached from every active state).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import IllegalStateError


class MemberState(Enum):
    """State of a member."""

    UNJOINED = "UNJOINED"
    STABLE = "STABLE"
    RECONCILING = "RECONCILING"
    RECONCILIATION_COMPLETE = "RECONCILIATION_COMPLETE"
    RELEASING_ASSIGNMENT = "RELEASING_ASSIGNMENT"
    RELEASING_ASSIGNMENT_COMPLETE = "RELEASING_ASSIGNMENT_COMPLETE"
    LEAVING = "LEAVING"
    LEFT = "LEFT"
    FATAL = "FATAL"


class MemberEvent(Enum):
    """Event that changes the state of a member."""

    HEARTBEAT_SENT = "a heartbeat is sent"
    JOINED = "a heartbeat with epoch 0 was answered"
    ASSIGNMENT_RECEIVED = "a response carries a new assignment"
    CALLBACKS_COMPLETED = "the callbacks have run, or there were none to run"
    FENCED = "the coordinator does not know the member or its epoch"
    FAILED = "a fatal error"
    LEAVE = "the application unsubscribes or closes"
    SUBSCRIBED = "the application subscribes again"


_S = MemberState
_E = MemberEvent

TRANSITIONS: Final[Mapping[tuple[MemberState, MemberEvent], MemberState]] = {
    (_S.UNJOINED, _E.HEARTBEAT_SENT): _S.UNJOINED,
    (_S.UNJOINED, _E.JOINED): _S.STABLE,
    (_S.UNJOINED, _E.FAILED): _S.FATAL,
    (_S.UNJOINED, _E.LEAVE): _S.LEAVING,
    (_S.STABLE, _E.HEARTBEAT_SENT): _S.STABLE,
    (_S.STABLE, _E.ASSIGNMENT_RECEIVED): _S.RECONCILING,
    (_S.STABLE, _E.FENCED): _S.RELEASING_ASSIGNMENT,
    (_S.STABLE, _E.FAILED): _S.FATAL,
    (_S.STABLE, _E.LEAVE): _S.LEAVING,
    (_S.RECONCILING, _E.HEARTBEAT_SENT): _S.RECONCILING,
    (_S.RECONCILING, _E.CALLBACKS_COMPLETED): _S.RECONCILIATION_COMPLETE,
    (_S.RECONCILING, _E.FENCED): _S.RELEASING_ASSIGNMENT,
    (_S.RECONCILING, _E.FAILED): _S.FATAL,
    (_S.RECONCILING, _E.LEAVE): _S.LEAVING,
    (_S.RECONCILIATION_COMPLETE, _E.HEARTBEAT_SENT): _S.STABLE,
    (_S.RECONCILIATION_COMPLETE, _E.FENCED): _S.RELEASING_ASSIGNMENT,
    (_S.RECONCILIATION_COMPLETE, _E.FAILED): _S.FATAL,
    (_S.RECONCILIATION_COMPLETE, _E.LEAVE): _S.LEAVING,
    (_S.RELEASING_ASSIGNMENT, _E.CALLBACKS_COMPLETED): _S.RELEASING_ASSIGNMENT_COMPLETE,
    (_S.RELEASING_ASSIGNMENT, _E.FAILED): _S.FATAL,
    (_S.RELEASING_ASSIGNMENT, _E.LEAVE): _S.LEFT,
    (_S.RELEASING_ASSIGNMENT_COMPLETE, _E.HEARTBEAT_SENT): _S.UNJOINED,
    (_S.RELEASING_ASSIGNMENT_COMPLETE, _E.FAILED): _S.FATAL,
    (_S.RELEASING_ASSIGNMENT_COMPLETE, _E.LEAVE): _S.LEFT,
    (_S.LEAVING, _E.HEARTBEAT_SENT): _S.LEFT,
    (_S.LEFT, _E.SUBSCRIBED): _S.UNJOINED,
}
"""Transitions that are not listed are illegal. FATAL is final: create a new consumer."""


def after(state: MemberState, event: MemberEvent) -> MemberState:
    """Returns the next state. Raises IllegalStateError for a transition that is not in the table."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalStateError(f"{event.name} is not possible in state {state.name}")
    return following


HEARTBEATING: Final = frozenset(state for state, event in TRANSITIONS if event is MemberEvent.HEARTBEAT_SENT)
"""States in which heartbeats are sent."""

AT_ONCE: Final = frozenset({_S.RECONCILIATION_COMPLETE, _S.RELEASING_ASSIGNMENT_COMPLETE, _S.LEAVING})
"""States that send a heartbeat immediately instead of at the next interval."""
