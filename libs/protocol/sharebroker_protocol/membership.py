"""Membership of a share group, seen from the member (KIP-932). Pure rules; a background task drives them.

Theory of operation
-------------------

Two parties drive the machine. The background task calls `next_deadline`, sends the request that `heartbeat`
returns, and reports `answered` or `failed`. The application's thread takes calls of its rebalance listener
from `next_callback`, runs them and reports `callback_completed`.

At most one heartbeat is in flight. A response is ignored if the member left or failed after the request was
sent. A full heartbeat (topics and rack) is sent after every error, because the coordinator may have lost the
previous one.

A new assignment is reconciled in two steps: revoke, then assign. A share-group heartbeat does not list the
member's partitions, so a revocation counts as confirmed when a heartbeat sent after it has been answered.
An assignment that arrives during a reconciliation replaces the target and is reconciled afterwards.

States and transitions are those of Kafka's `MemberState`, with two additions. LEAVING and LEFT
exist because a consumer can unsubscribe, close and subscribe again. A member can be fenced while it
reconciles, because any heartbeat response can fence it (Kafka: FENCED is reached from every active state).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.model import TopicIdPartition

Partitions = frozenset[TopicIdPartition]
NOTHING: Partitions = frozenset()


class Phase(Enum):
    """Phases of a reconciliation (Kafka: `AbstractMembershipManager.maybeReconcile`)."""

    STABLE = "Stable"
    UPDATING = "Updating"
    REVOKING = "Revoking via Callback"
    AWAITING_CONFIRMATION = "Awaiting Revocation Confirmation"
    ASSIGNING = "Assigning via Callback"
    LOSING = "Releasing via Callback"


class CallbackKind(Enum):
    """The method of the listener to run."""

    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


@dataclass(frozen=True, slots=True, eq=False)
class Callback:
    """A pending call of the listener. Compared by identity."""

    kind: CallbackKind
    partitions: Partitions


class Reconciler:
    """Holds the current assignment `owned` and moves it towards the target.

    Without a listener the move is immediate. With one, the application runs each entry of `callbacks` and
    reports it with `completed`. The response to a heartbeat that was sent after a revocation confirms it.
    """

    def __init__(self, has_listener: bool) -> None:
        self._has_listener = has_listener
        self._target: Partitions = NOTHING
        self._pending: Callback | None = None
        self.owned: Partitions = NOTHING
        self.phase = Phase.STABLE
        self.callbacks: deque[Callback] = deque()

    def reconcile(self, target: Partitions) -> None:
        """Sets a new target. A reconciliation in progress finishes its callback first."""
        self._target = target
        if self.phase is Phase.STABLE:
            self._update()

    def _update(self) -> None:
        self.phase = Phase.UPDATING
        revoked = self.owned - self._target
        if revoked and self._has_listener:
            self._request(Phase.REVOKING, CallbackKind.REVOKED, revoked)
            return
        self.owned -= revoked
        assigned = self._target - self.owned
        if assigned and self._has_listener:
            self._request(Phase.ASSIGNING, CallbackKind.ASSIGNED, assigned)
            return
        self.owned |= assigned
        self.phase = Phase.STABLE

    def _request(self, phase: Phase, kind: CallbackKind, partitions: Partitions) -> None:
        self.phase = phase
        self._pending = Callback(kind, partitions)
        self.callbacks.append(self._pending)

    def completed(self, callback: Callback) -> bool:
        """Records that `callback` was run; returns False if it is obsolete (member fenced or left)."""
        if callback is not self._pending:
            return False
        self._pending = None
        if callback.kind is CallbackKind.REVOKED:
            self.owned -= callback.partitions
            self.phase = Phase.AWAITING_CONFIRMATION
        elif callback.kind is CallbackKind.ASSIGNED:
            self.owned |= callback.partitions
            self._update()  # the target may have moved on
        else:
            self.phase = Phase.STABLE
        return True

    def confirmed(self) -> None:
        """Confirms the revocation and continues with the newest target."""
        self._update()

    def lose(self) -> None:
        """Drops the whole assignment; a listener gets `on_partitions_lost` if there was one."""
        lost = self.owned
        self.reset()
        if lost and self._has_listener:
            self._request(Phase.LOSING, CallbackKind.LOST, lost)

    def reset(self) -> None:
        """Drops the assignment and pending callbacks without calling the listener."""
        self.callbacks.clear()
        self._pending = None
        self.owned = self._target = NOTHING
        self.phase = Phase.STABLE


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
    FENCED = "the coordinator has no such member, or it has another epoch"
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


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat. `rack_id` and `topics` are None if they have not changed since the last heartbeat."""

    member_epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """A response without error. `interval` is in seconds; `assignment` is None if it has not changed."""

    member_epoch: int
    interval: float
    assignment: frozenset[TopicIdPartition] | None = None


class Reaction(Enum):
    """How a member reacts to an error in a heartbeat response."""

    REJOIN = "drop the assignment, join again with epoch 0"
    BACK_OFF = "send a full heartbeat after a backoff"
    REPORT = "report the error to the application and continue"
    GIVE_UP = "report the error to the application and stop heartbeating"


_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.REPORT,
}


def reaction_to(code: ErrorCode) -> Reaction:
    """Returns the reaction to `code`; a code that is not in the table is fatal unless it is retriable."""
    default = Reaction.BACK_OFF if code.retriable else Reaction.GIVE_UP
    return _REACTIONS.get(code, default)


NOW = float("-inf")
"""A deadline that has always passed."""

_GONE = frozenset({MemberState.FATAL, MemberState.LEAVING, MemberState.LEFT})


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """Settings of a member. `retry_backoff` (seconds) doubles up to `retry_backoff_max`."""

    rack_id: str | None = None
    has_listener: bool = False
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0


class Membership:
    """One member. `now` is a monotonic clock in seconds."""

    def __init__(self, settings: MembershipSettings) -> None:
        self._settings = settings
        self._reconciler = Reconciler(settings.has_listener)
        self._wanted: Partitions | None = None  # the newest assignment since joining
        self._reconciled: Partitions | None = None  # the assignment that the reconciler works on
        self._interval = 5.0
        self._next_at = NOW
        self._urgent = False
        self._failures = 0
        self._in_flight: HeartbeatRequest | None = None
        self._confirms = False  # the heartbeat in flight was sent after a revocation
        self._known_topics: frozenset[str] | None = None
        self._knows_rack = False
        self._reports: list[KafkaError] = []
        self.state = MemberState.UNJOINED
        self.member_epoch = JOIN_EPOCH
        self.topics: frozenset[str] = frozenset()
        self.error: KafkaError | None = None

    @property
    def assigned(self) -> Partitions:
        """The partitions that the member consumes, after the callbacks completed so far."""
        return self._reconciler.owned

    @property
    def phase(self) -> Phase:
        """The phase of the reconciliation."""
        return self._reconciler.phase

    # Called by the application

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribes to a non-empty set of topics and joins if necessary. Raises the fatal error, if any."""
        if self.error is not None:
            raise self.error
        if self.state is MemberState.LEFT:
            self._move(MemberEvent.SUBSCRIBED)
        if topics != self.topics:
            self.topics = topics
            self._urgent = True

    def leave(self) -> None:
        """Leaves the group with a last heartbeat. Does nothing if the member is not in the group."""
        if self.state in _GONE or not self.topics:
            return
        self._move(MemberEvent.LEAVE)
        self.topics = frozenset()
        self.member_epoch = JOIN_EPOCH
        self._failures = 0
        self._forget()

    def next_callback(self) -> Callback | None:
        """Returns the next listener call that the application's thread must make."""
        callbacks = self._reconciler.callbacks
        return callbacks.popleft() if callbacks else None

    def callback_completed(self, callback: Callback) -> None:
        """Records that `callback` was run. The partitions move even if it raised."""
        if self._reconciler.completed(callback):
            self._urgent = self.phase is Phase.AWAITING_CONFIRMATION
            self._advance()

    def take_report(self) -> KafkaError | None:
        """Returns an error to report to the application that did not end the membership."""
        return self._reports.pop(0) if self._reports else None

    # Called by the background task

    def next_deadline(self) -> float | None:
        """Returns when a heartbeat is due; None while one is in flight and in states without heartbeats."""
        wanted = bool(self.topics) or self.state is MemberState.LEAVING
        if self._in_flight is not None or self.state not in HEARTBEATING or not wanted:
            return None
        at_once = self.state in AT_ONCE and self._failures == 0
        return NOW if self._urgent or at_once else self._next_at

    def heartbeat(self, now: float) -> HeartbeatRequest | None:
        """Returns the heartbeat to send now, if one is due."""
        due = self.next_deadline()
        if due is None or now < due:
            return None
        leaving = self.state is MemberState.LEAVING
        self._move(MemberEvent.HEARTBEAT_SENT)
        if leaving and self.topics:  # subscribed again before the leave heartbeat was sent
            self._move(MemberEvent.SUBSCRIBED)
        self._urgent = False
        self._confirms = self.phase is Phase.AWAITING_CONFIRMATION
        self._next_at = now + self._interval
        self._in_flight = HeartbeatRequest(LEAVE_EPOCH) if leaving else self._request()
        return self._in_flight

    def _request(self) -> HeartbeatRequest:
        topics = None if self.topics == self._known_topics else self.topics
        rack = None if self._knows_rack else self._settings.rack_id
        self._known_topics = self.topics
        self._knows_rack = True
        return HeartbeatRequest(self.member_epoch, rack, topics)

    def answered(self, response: HeartbeatResponse, now: float) -> None:
        """Records the response to the heartbeat in flight."""
        if not self._awaited():
            return
        self._failures = 0
        if response.interval > 0:
            self._interval = response.interval
        self._next_at = now + self._interval
        self.member_epoch = response.member_epoch
        if response.assignment is not None:
            self._wanted = response.assignment
        if self.state is MemberState.UNJOINED:
            self._move(MemberEvent.JOINED)
        self._advance()

    def failed(self, error: KafkaError, now: float) -> None:
        """Records that the heartbeat in flight was rejected or got no response."""
        if not self._awaited():
            return
        self._confirms = False
        self._forget()
        match reaction_to(error.code):
            case Reaction.REJOIN if self.state is not MemberState.UNJOINED:
                self._fenced()
            case Reaction.GIVE_UP:
                self.fail(error)
            case Reaction.REPORT:
                self._reports.append(error)
                self._next_at = now + self._interval
            case _:
                self._back_off(now)

    def fail(self, error: KafkaError) -> None:
        """Ends the membership with a fatal error, which the application's next call raises."""
        if self.state not in _GONE:
            self._move(MemberEvent.FAILED)
            self.error = error

    def _awaited(self) -> bool:
        """Clears the heartbeat in flight; returns False if its response is no longer relevant."""
        request, self._in_flight = self._in_flight, None
        return request is not None and request.member_epoch != LEAVE_EPOCH and self.state not in _GONE

    def _fenced(self) -> None:
        self._move(MemberEvent.FENCED)
        self._reconciler.lose()
        self.member_epoch = JOIN_EPOCH
        self._wanted = self._reconciled = None
        self._advance()

    def _back_off(self, now: float) -> None:
        settings = self._settings
        self._next_at = now + min(settings.retry_backoff * 2**self._failures, settings.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)

    def _forget(self) -> None:
        """Makes the next heartbeat a full one: the coordinator may have lost the last."""
        self._known_topics = None
        self._knows_rack = False

    def _advance(self) -> None:
        """Advances the state as far as the reconciliation permits."""
        if self._wanted != self._reconciled and self._wanted is not None:
            if self.state is MemberState.STABLE:
                self._move(MemberEvent.ASSIGNMENT_RECEIVED)
            if self.state is MemberState.RECONCILING:
                self._reconciled = self._wanted
                self._reconciler.reconcile(self._wanted)
        if self._confirms:
            self._confirms = False
            self._reconciler.confirmed()
        if self.phase is Phase.STABLE and (self.state, MemberEvent.CALLBACKS_COMPLETED) in TRANSITIONS:
            self._move(MemberEvent.CALLBACKS_COMPLETED)

    def _move(self, event: MemberEvent) -> None:
        self.state = after(self.state, event)
        if self.state in _GONE:
            self._reconciler.reset()
            self._wanted = self._reconciled = None
