"""Reconciliation: brings the records of a planned batch to the state that its commit demands.

A planned batch names offsets; it outlives the locks, which exist in the leader's memory only. A record that
is available again, or that a new leader has not fetched yet, is acquired for the member that names it and
changed in the same step, so that no other member can acquire it in between. Records that another member
holds, and finished records, are left unchanged and returned with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.model import ENDED, AckBatch, AckType, Disposition
from sharebroker_server.leader_calls.values import Unreconciled, UnreconciledReason
from sharebroker_server.share_partition_leader.core.acknowledge import invalid, validate_batches
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    AVAILABLE,
    Batch,
    Lock,
    Run,
    Transition,
    state_batch,
)
from sharebroker_server.share_partition_leader.core.transitions import (
    AFTER_ACK,
    TRANSITIONS,
    RecordEvent,
)

_RELEASE: Final = int(AckType.RELEASE)
_RENEW: Final = int(AckType.RENEW)


def validate_reconciliation(batches: Sequence[AckBatch]) -> None:
    """Validates the form: ascending ranges, each accepted, released, rejected or renewed as a whole.

    Raises: KafkaError INVALID_REQUEST.
    """
    validate_batches(batches)
    for index, batch in enumerate(batches):
        if len(batch.types) != 1 or batch.types[0] == AckType.GAP:
            raise invalid(f"ranges[{index}].type", "must be ACCEPT, RELEASE, REJECT or RENEW")


@dataclass(slots=True)
class Reconciliation:
    """One reconciliation; `lock` is for the records that it acquires or renews, `retry` for released ones.

    Offsets that are archived or archiving already may be so in memory only, after a lock timeout. The reply
    reports them as finished, so they are written again before it is sent.
    """

    in_flight: InFlight
    settings: SharePartitionSettings
    lock: Lock
    transition: Transition
    retry: FailedDelivery | None = None
    unreconciled: list[Unreconciled] = field(default_factory=list, init=False)
    renewed: list[tuple[Run, Lock]] = field(default_factory=list, init=False)

    def run(self, batches: Sequence[AckBatch], end: int) -> None:
        """Reconciles what is possible of the batches; the log ends before offset `end`."""
        for batch in batches:
            self._add(batch, end)

    def _add(self, batch: AckBatch, end: int) -> None:
        in_flight, (first, last, types, _) = self.in_flight, batch
        if first < in_flight.start:
            self._leave(first, min(last, in_flight.start - 1), UnreconciledReason.FINISHED)
            first = in_flight.start
        if last >= end:
            self._leave(max(first, end), last, UnreconciledReason.PAST_END)
            last = end - 1
        if first > last:
            return
        if last >= in_flight.after_end:
            self._extend_to(last)
        self._walk(first, last, types[0])

    def _extend_to(self, last: int) -> None:
        """Adds records that this leader has not fetched yet, as a gap in the loaded state."""
        in_flight = self.in_flight
        added = Run(in_flight.after_end, last, AVAILABLE, 0, None)
        in_flight.append(added)
        in_flight.tally(added, added.size)
        in_flight.mark_available(in_flight.firsts[-1])
        in_flight.coalesce_at(len(in_flight.runs) - 1)

    def _walk(self, first: int, last: int, kind: int) -> None:
        runs = self.in_flight.runs
        index = self.in_flight.locate(first)
        while index < len(runs) and runs[index].first <= last:
            run = runs[index]
            why = self._obstacle(run)
            if why is not None:
                self._leave(max(first, run.first), min(last, run.last), why)
                self._note_archived(run, first, last)
            elif run.state is not AVAILABLE or kind != _RELEASE:  # else it is available already
                index = self.in_flight.split_at(index, first, last)
                self._reconcile_run(runs[index], kind)
            index += 1

    def _obstacle(self, run: Run) -> UnreconciledReason | None:
        if run.state in ENDED:
            return UnreconciledReason.FINISHED
        if run.not_before_ms:
            return UnreconciledReason.TAKEN
        if run.lock is None:
            return None
        if run.lock.member != self.lock.member:
            return UnreconciledReason.TAKEN
        return UnreconciledReason.UNDER_WAY if run.pending is not None else None

    def _reconcile_run(self, run: Run, kind: int) -> None:
        target = AFTER_ACK[self.settings.dead_letters][kind]
        if run.state is AVAILABLE:
            self._claim(run)
        elif kind == _RENEW and run.lock is not None:
            self.renewed.append((run, run.lock))
        if target is ACQUIRED:
            return
        disposition = Disposition.EXHAUSTED
        if kind == AckType.REJECT:
            self.transition.rejected += run.size
            disposition = Disposition.REJECTED
        if target is AVAILABLE:
            target = self.transition.after_release(run.delivery_count, self.settings)
        not_before_ms = run.next_delivery_ms(self.retry) if target is AVAILABLE else 0
        self.transition.add(run, target, not_before_ms, disposition)

    def _claim(self, run: Run) -> None:
        run.state = TRANSITIONS[run.state, RecordEvent.ACQUIRE]
        run.delivery_count += 1
        run.lock = self.lock
        self.lock.cover(run.first, run.last)
        self.in_flight.ready -= run.size
        self.in_flight.locked += run.size
        run.batch = run.batch or Batch(run.first, run.last)

    def _note_archived(self, run: Run, first: int, last: int) -> None:
        if run.state in ENDED and run.state is not ACKNOWLEDGED:
            first, last = max(first, run.first), min(last, run.last)
            written = state_batch(first, last, run.state, run.delivery_count, 0, run.failure)
            self.transition.batches.append(written)

    def _leave(self, first: int, last: int, reason: UnreconciledReason) -> None:
        if (
            self.unreconciled
            and self.unreconciled[-1].last + 1 == first
            and self.unreconciled[-1].reason is reason
        ):
            first = self.unreconciled.pop().first
        self.unreconciled.append(Unreconciled(first, last, reason))
