"""From the assignment held to the one wanted, by callbacks run by the application's thread (seed 003)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from sharebroker_protocol.model import TopicIdPartition

Partitions = frozenset[TopicIdPartition]
NOTHING: Partitions = frozenset()


class Phase(Enum):
    """The states of the seed's step table."""

    STABLE = "Stable"
    UPDATING = "Updating"
    REVOKING = "Revoking via Callback"
    AWAITING_CONFIRMATION = "Awaiting Revocation Confirmation"
    ASSIGNING = "Assigning via Callback"
    LOSING = "Releasing via Callback"


class CallbackKind(Enum):
    """Which method of the listener is to run."""

    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


@dataclass(frozen=True, slots=True, eq=False)
class Callback:
    """A call of the listener that the application's thread owes; each is its own, whatever it says."""

    kind: CallbackKind
    partitions: Partitions


class Reconciler:
    """Holds `owned`, works towards a target; without a listener it is there at once.

    Callbacks to run stand in `callbacks`; whoever has run one reports it by `completed`. A share heartbeat
    does not list partitions, so what confirms a revocation is that a heartbeat sent after it is answered.
    """

    def __init__(self, has_listener: bool) -> None:
        self._has_listener = has_listener
        self._target: Partitions = NOTHING
        self._owed: Callback | None = None
        self.owned: Partitions = NOTHING
        self.phase = Phase.STABLE
        self.callbacks: deque[Callback] = deque()

    def reconcile(self, target: Partitions) -> None:
        """Take a new target. While callbacks run it is kept for when they have."""
        self._target = target
        if self.phase is Phase.STABLE:
            self._update()

    def _update(self) -> None:
        self.phase = Phase.UPDATING
        revoked = self.owned - self._target
        if revoked and self._has_listener:
            self._owe(Phase.REVOKING, CallbackKind.REVOKED, revoked)
            return
        self.owned -= revoked
        assigned = self._target - self.owned
        if assigned and self._has_listener:
            self._owe(Phase.ASSIGNING, CallbackKind.ASSIGNED, assigned)
            return
        self.owned |= assigned
        self.phase = Phase.STABLE

    def _owe(self, phase: Phase, kind: CallbackKind, partitions: Partitions) -> None:
        self.phase = phase
        self._owed = Callback(kind, partitions)
        self.callbacks.append(self._owed)

    def completed(self, callback: Callback) -> bool:
        """The application has run `callback`; False when nobody waits for it any more (fenced, left)."""
        if callback is not self._owed:
            return False
        self._owed = None
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
        """A heartbeat sent since the revocation was answered: go on with the newest target."""
        self._update()

    def lose(self) -> None:
        """Everything held is gone: to be told to the listener, if there is one and it held something."""
        lost = self.owned
        self.reset()
        if lost and self._has_listener:
            self._owe(Phase.LOSING, CallbackKind.LOST, lost)

    def reset(self) -> None:
        """Hold nothing, owe nothing."""
        self.callbacks.clear()
        self._owed = None
        self.owned = self._target = NOTHING
        self.phase = Phase.STABLE
