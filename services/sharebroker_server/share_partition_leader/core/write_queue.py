"""Transitions on their way to the share coordinator: waiting, in one write, or waiting to be retried.

A share-partition has at most one state write in flight, so that writes arrive in the order in which they were
built. Transitions that arrive meanwhile wait and go together into the next write. It is built only when it is
sent: the start offset it carries then covers everything that is durable or part of it.

A failed write is rolled back, and its requests are rejected. A lock timeout cannot be rolled back, since
another member may hold the record by now: it has state batches but no runs. Such changes wait in the retry
queue until a write succeeds. A late retry does no harm: of two states of an offset the higher delivery count
wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.share_partition_leader.core.effects import Effects, Reply
from sharebroker_server.share_partition_leader.core.in_flight import Transition

RETRY_INTERVAL: Final = 2.0
"""Seconds before changes whose write failed are written again."""


class WriteQueue:
    """The transitions of one share-partition that are not durable yet, with the replies that wait for them.

    `busy` from the first transition that waits until a write completes and none waits any more.
    """

    __slots__ = ("_in_flight", "_retry", "_waiting", "busy", "retry_at")

    def __init__(self) -> None:
        self.busy = False
        self.retry_at: float | None = None
        self._waiting: list[tuple[Transition, Reply | None]] = []
        self._in_flight: list[tuple[Transition, Reply | None]] = []
        self._retry: list[Transition] = []

    @property
    def idle(self) -> bool:
        """Whether nothing waits, is in flight, or has to be retried."""
        return not self.busy and not self._retry

    def add(self, transition: Transition, reply: Reply | None, effects: Effects) -> None:
        """Queues a transition; asks for a write unless one is due or in flight."""
        self._waiting.append((transition, reply))
        queued = effects.transitions
        effects.transitions = (*queued, transition) if queued else (transition,)
        if not self.busy:
            self.busy = effects.write_due = True

    def take(self) -> list[Transition]:
        """Moves what waits into the write in flight; [] if it was rejected since."""
        self._in_flight, self._waiting = self._waiting, []
        self.busy = bool(self._in_flight)
        return [transition for transition, _ in self._in_flight]

    def complete(self, error: KafkaError | None, effects: Effects) -> list[Transition]:
        """Ends the write in flight: replies, asks for the next one, returns its transitions."""
        in_flight, self._in_flight = self._in_flight, []
        effects.replies = [(reply, error) for _, reply in in_flight if reply is not None]
        self.busy = effects.write_due = bool(self._waiting)
        return [transition for transition, _ in in_flight]

    def reject_waiting(self, error: KafkaError, effects: Effects) -> None:
        """Rejects what is not in flight, and retries nothing any more."""
        waiting, self._waiting = self._waiting, []
        self._retry, self.retry_at = [], None
        effects.replies = [(reply, error) for _, reply in waiting if reply is not None]

    def add_retries(self, failed: Iterable[Transition], now: float) -> None:
        """Keeps those transitions of a failed write that could not be rolled back."""
        self._retry += [transition for transition in failed if transition.batches and not transition.runs]
        if self._retry and self.retry_at is None:
            self.retry_at = now + RETRY_INTERVAL

    def flush_retries(self, effects: Effects) -> None:
        """Queues the failed transitions again."""
        retry, self._retry, self.retry_at = self._retry, [], None
        for transition in retry:
            self.add(transition, None, effects)
