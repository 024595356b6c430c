"""Settling: a member that keeps a record of its own of what it was given names offsets, held or not.

A lock is a promise of the leader's memory; a planned micro-batch outlives it. So a record that is available
again, or that a new leader has not looked at yet, is acquired for whoever names it, and reconciled in the
same step: nobody else can get it between. What somebody else has, or what is finished, is left as it is and
told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import AckBatch, AckType, AcquiredRange, RecordState, StateBatch
from sharebroker_server.share_calls.values import Left, LeftReason
from sharebroker_server.share_partition_leader.core.acknowledge import validate_batches
from sharebroker_server.share_partition_leader.core.in_flight import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Batch,
    InFlight,
    Lock,
    Run,
    Transition,
)
from sharebroker_server.share_partition_leader.core.states import (
    EVENT_OF_ACK,
    TRANSITIONS,
    Event,
    after_failed_delivery,
)

_RELEASE: Final = int(AckType.RELEASE)
_RENEW: Final = int(AckType.RENEW)


class Reconciled(NamedTuple):
    """What a reconciliation wants written (None: nothing), and what it left."""

    transition: Transition | None
    left: tuple[Left, ...]


def validate_reconciliation(batches: Sequence[AckBatch]) -> None:
    """Check the form: ascending runs, each accepted, released, rejected or renewed as a whole.

    Raises: KafkaError INVALID_REQUEST.
    """
    validate_batches(batches)
    for index, batch in enumerate(batches):
        if len(batch.types) != 1 or batch.types[0] == AckType.GAP:
            where = f"ranges[{index}].type"
            fault = "must be ACCEPT, RELEASE, REJECT or RENEW"
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{where}: {fault}", violations=[FieldViolation(where, fault)]
            )


class Reconciliation:
    """One settle call under way; `lock` is for what it acquires, and for what it renews.

    `archived` are offsets that it found so and left. They may be so in memory alone, after their last lock
    ran out, and whoever hears that they are finished must not be given them by the next leader.
    """

    __slots__ = ("_in_flight", "_limit", "_lock", "_transition", "archived", "left", "renewed")

    def __init__(self, in_flight: InFlight, limit: int, lock: Lock, transition: Transition) -> None:
        self._in_flight = in_flight
        self._limit = limit
        self._lock = lock
        self._transition = transition
        self.left: list[Left] = []
        self.renewed: list[tuple[Run, Lock]] = []
        self.archived: list[StateBatch] = []

    def add(self, batch: AckBatch, end: int) -> None:
        """Settle what can be reconciled of a run; the log ends before offset `end`."""
        in_flight, (first, last, types, _) = self._in_flight, batch
        if first < in_flight.start:
            self._leave(first, min(last, in_flight.start - 1), LeftReason.FINISHED)
            first = in_flight.start
        if last >= end:
            self._leave(max(first, end), last, LeftReason.PAST_END)
            last = end - 1
        if first > last:
            return
        if last >= in_flight.after_end:
            self._extend_to(last)
        self._walk(first, last, types[0])

    def _extend_to(self, last: int) -> None:
        """Widen the window by records that this leader has not fetched yet: a hole, as in loaded state."""
        in_flight = self._in_flight
        in_flight.append(Run(in_flight.after_end, last, AVAILABLE, 0, None))
        in_flight.mark_available(in_flight.firsts[-1])
        in_flight.coalesce_at(len(in_flight.runs) - 1)

    def _walk(self, first: int, last: int, kind: int) -> None:
        runs = self._in_flight.runs
        index = self._in_flight.locate(first)
        while index < len(runs) and runs[index].first <= last:
            run = runs[index]
            why = self._obstacle(run)
            if why is not None:
                self._leave(max(first, run.first), min(last, run.last), why)
                self._note_archived(run, first, last)
            elif run.state is not AVAILABLE or kind != _RELEASE:  # else it is where that would bring it
                index = self._in_flight.split_at(index, first, last)
                self._settle(runs[index], kind)
            index += 1

    def _obstacle(self, run: Run) -> LeftReason | None:
        if run.state >= RecordState.ACKNOWLEDGED:
            return LeftReason.FINISHED
        if run.lock is None:
            return None
        if run.lock.member != self._lock.member:
            return LeftReason.TAKEN
        return LeftReason.UNDER_WAY if run.pending is not None else None

    def _settle(self, run: Run, kind: int) -> None:
        target = TRANSITIONS[ACQUIRED, EVENT_OF_ACK[kind]]
        if run.state is AVAILABLE:
            self._claim(run)
        elif kind == _RENEW and run.lock is not None:
            self.renewed.append((run, run.lock))
        if target is ACQUIRED:
            return
        if kind == AckType.REJECT:
            self._transition.rejected += run.size
        if target is AVAILABLE:
            target = after_failed_delivery(Event.RELEASE, run.delivery_count, self._limit)
        run.target, run.pending = target, self._transition
        self._transition.runs.append(run)

    def _claim(self, run: Run) -> None:
        run.state = TRANSITIONS[run.state, Event.ACQUIRE]
        run.delivery_count += 1
        run.lock = self._lock
        run.batch = run.batch or Batch(run.first, run.last)

    def _note_archived(self, run: Run, first: int, last: int) -> None:
        if run.state is ARCHIVED:
            first, last = max(first, run.first), min(last, run.last)
            self.archived.append(StateBatch(first, last, ARCHIVED, run.delivery_count))

    def _leave(self, first: int, last: int, reason: LeftReason) -> None:
        if self.left and self.left[-1].last + 1 == first and self.left[-1].reason is reason:
            first = self.left.pop().first
        self.left.append(Left(first, last, reason))


def held_by(in_flight: InFlight, member: str) -> list[AcquiredRange]:
    """What a member holds and has not answered for, neighbours of one acquisition as one run."""
    held: list[AcquiredRange] = []
    for run in in_flight.runs:
        if run.lock is None or run.pending is not None or run.lock.member != member:
            continue
        one = AcquiredRange(run.first, run.last, run.delivery_count, run.lock.token, run.lock.deadline)
        if held and held[-1].last + 1 == one.first and held[-1][2:] == one[2:]:
            one = one._replace(first=held.pop().first)
        held.append(one)
    return held
