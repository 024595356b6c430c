"""Moves a member from its current to its target assignment through listener callbacks (seed 003)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from sharebroker_protocol.model import TopicIdPartition

Partitions = frozenset[TopicIdPartition]
NOTHING: Partitions = frozenset()


class Phase(Enum):
    """Phases of a reconciliation (seed 003, step table)."""

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
