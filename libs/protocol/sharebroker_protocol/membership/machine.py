"""The member of a share group: what to heartbeat and when, and what an answer changes (seed 003)."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.membership.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatRequest,
    HeartbeatResponse,
    Reaction,
    reaction_to,
)
from sharebroker_protocol.membership.reconciler import Callback, Partitions, Phase, Reconciler
from sharebroker_protocol.membership.states import (
    AT_ONCE,
    HEARTBEATING,
    TRANSITIONS,
    MemberEvent,
    MemberState,
    after,
)

NOW = float("-inf")
"""A deadline that has passed by any clock."""

_GONE = frozenset({MemberState.FATAL, MemberState.LEAVING, MemberState.LEFT})


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """`retry_backoff` doubles up to `retry_backoff_max` (seconds; Kafka: retry.backoff.ms and .max.ms)."""

    rack_id: str | None = None
    has_listener: bool = False
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0


class Membership:
    """One member. `now` is any clock in seconds that only rises.

    The background task asks `next_deadline()`, sends what `heartbeat(now)` gives, and reports `answered` or
    `failed`. The application's thread takes a call from `next_callback`, makes it, and reports
    `callback_completed`.
    """

    def __init__(self, settings: MembershipSettings) -> None:
        self._settings = settings
        self._reconciler = Reconciler(settings.has_listener)
        self._wanted: Partitions | None = None  # the coordinator's last word since joining
        self._taken_up: Partitions | None = None  # what of it the reconciler works on
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
        """The partitions to take records from, as far as the callbacks have come."""
        return self._reconciler.owned

    @property
    def phase(self) -> Phase:
        """How far the reconciliation has come."""
        return self._reconciler.phase

    # The application's side

    def subscribe(self, topics: frozenset[str]) -> None:
        """Ask for these topics (not none: `leave`), joining if need be. Raises the error that was fatal."""
        if self.error is not None:
            raise self.error
        if self.state is MemberState.LEFT:
            self._move(MemberEvent.SUBSCRIBED)
        if topics != self.topics:
            self.topics = topics
            self._urgent = True

    def leave(self) -> None:
        """Stop being a member; one last heartbeat says so. Nothing to do when not in the group."""
        if self.state in _GONE or not self.topics:
            return
        self._move(MemberEvent.LEAVE)
        self.topics = frozenset()
        self.member_epoch = JOIN_EPOCH
        self._failures = 0
        self._forget()

    def next_callback(self) -> Callback | None:
        """The next call that the application's thread is to make of its listener."""
        callbacks = self._reconciler.callbacks
        return callbacks.popleft() if callbacks else None

    def callback_completed(self, callback: Callback) -> None:
        """The application has run `callback`; whether or not it raised, the partitions have moved."""
        if self._reconciler.completed(callback):
            self._urgent = self.phase is Phase.AWAITING_CONFIRMATION
            self._settle()

    def take_report(self) -> KafkaError | None:
        """An error to tell the application that has not ended the membership."""
        return self._reports.pop(0) if self._reports else None

    # The background task's side

    def next_deadline(self) -> float | None:
        """When a heartbeat is due; None while one is under way, and in states without heartbeats."""
        wanted = bool(self.topics) or self.state is MemberState.LEAVING
        if self._in_flight is not None or self.state not in HEARTBEATING or not wanted:
            return None
        at_once = self.state in AT_ONCE and self._failures == 0
        return NOW if self._urgent or at_once else self._next_at

    def heartbeat(self, now: float) -> HeartbeatRequest | None:
        """The heartbeat to send now, if one is due."""
        due = self.next_deadline()
        if due is None or now < due:
            return None
        leaving = self.state is MemberState.LEAVING
        self._move(MemberEvent.HEARTBEAT_SENT)
        if leaving and self.topics:  # subscribed again before the good-bye was out
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
        """The heartbeat in flight was answered without error."""
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
        self._settle()

    def failed(self, error: KafkaError, now: float) -> None:
        """The heartbeat in flight was refused, or nothing came back."""
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
        """End the membership with a fatal error; the application gets it from its next call."""
        if self.state not in _GONE:
            self._move(MemberEvent.FAILED)
            self.error = error

    def _awaited(self) -> bool:
        """Take the heartbeat out of flight; False when its answer means nothing any more."""
        request, self._in_flight = self._in_flight, None
        return request is not None and request.member_epoch != LEAVE_EPOCH and self.state not in _GONE

    def _fenced(self) -> None:
        self._move(MemberEvent.FENCED)
        self._reconciler.lose()
        self.member_epoch = JOIN_EPOCH
        self._wanted = self._taken_up = None
        self._settle()

    def _back_off(self, now: float) -> None:
        settings = self._settings
        self._next_at = now + min(settings.retry_backoff * 2**self._failures, settings.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)

    def _forget(self) -> None:
        """The coordinator may know nothing of what was said: say all of it next time."""
        self._known_topics = None
        self._knows_rack = False

    def _settle(self) -> None:
        """Move on as far as the reconciler has come."""
        if self._wanted != self._taken_up and self._wanted is not None:
            if self.state is MemberState.STABLE:
                self._move(MemberEvent.ASSIGNMENT_RECEIVED)
            if self.state is MemberState.RECONCILING:
                self._taken_up = self._wanted
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
            self._wanted = self._taken_up = None
