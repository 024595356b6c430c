"""The share-partition: the records of one topic partition as one share group sees them, on their leader.

Source: SharePartition of Kafka 4.3 (KIP-932, KIP-1206, KIP-1222).

Theory of operation
-------------------

*Records and runs.* The leader tracks every record from the start offset (SPSO) to the end offset (SPEO). It
does not store one object per record: a `Run` is a range of consecutive offsets that have the same state,
delivery count and lock. Runs are ordered and disjoint; what lies between two of them does not exist in the
log. A run is split when an event concerns a part of it, and coalesced with its neighbours when they become
equal again. `core.in_flight` keeps the `core.runs`, `core.transitions` has the table of legal transitions.

*Batches.* A run belongs to a `Batch`: the records that were acquired together for the first time. Batches are
redelivered whole. If a batch fails often, one of its records may be the cause, so the batch is *isolated*:
the batch is delivered without other records, in portions that halve with each failure; a record's last
delivery contains only that record. A member that crashes then uses up the last delivery of one record only
(`core.acquire`).

*Pending transitions.* An acknowledgement takes effect once the share coordinator has stored it. Until then
the run stays ACQUIRED, with a `pending` transition and a `target`. It cannot be acquired, its lock does not
time out, and a rollback only has to discard the transition. Acquisition itself is never stored: after a
fail-over the records are available again, and their delivery counts are those of the last stored state.

*Writes.* At most one state write is in flight (`core.state_writes`). It is built when it is sent. Its start
offset passes only records whose final state is durable, or is part of this write.

*Scheduled records* enter the window like others, and wait there as AVAILABLE until their time. That is not
stored: the next leader reads the times with the records.

*Order of calls.* `handle` applies one event and returns its effects; the shell performs them in the order of
`Effects`. To acquire: `fetch_offset`, read the log there, then `Acquire`. To write: after `write_due`, one
`next_write` at the end of the turn of the event loop, then `WriteCompleted`; `next_write` returns None if the
changes were rejected meanwhile. `TimerFired` may be sent early; its effects then carry the next deadline.
After `Stop` and `Retire` requests are rejected with NOT_LEADER_OR_FOLLOWER, and members release what they
hold as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, StateWrite
from sharebroker_server.share_partition_leader.core import archiving, events
from sharebroker_server.share_partition_leader.core.acknowledge import (
    count_acknowledged,
    mark,
    validate_batches,
    validate_delay,
    validate_releases,
    validate_renewals,
)
from sharebroker_server.share_partition_leader.core.acquire import (
    Acquisition,
    archive_hidden,
    count_acquired,
    expire,
    postpone,
    unlimited,
    withheld_prefix,
)
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery, RetryCause
from sharebroker_server.share_partition_leader.core.events import Counts, Effects
from sharebroker_server.share_partition_leader.core.locks import (
    Locks,
    count_time_outs,
    is_durable,
    tokens_of,
)
from sharebroker_server.share_partition_leader.core.reconcile import Reconciliation, validate_reconciliation
from sharebroker_server.share_partition_leader.core.runs import Run, Transition
from sharebroker_server.share_partition_leader.core.state_writes import (
    STATE_LOST,
    WriteQueue,
    build_write,
    commit,
    count_archived,
    load,
    merged,
    of_timeouts,
    roll_back,
    undo,
)


class SharePartition:
    """One share-partition, without I/O, clock or log: `handle` takes an event and a time and returns effects.

    `tokens` is shared by all share-partitions of a partition under one leader epoch, of any group and after
    any reload: the token of an earlier acquisition must never match a later lock. `settings` are the limits
    in effect, `counts` what happened to the records, `stopping`: requests are rejected. `in_flight` and
    `loaded_state` are for queries; only this class changes the former. Raises: KafkaError
    UNKNOWN_SERVER_ERROR if the loaded state is inconsistent.
    """

    __slots__ = (
        "_abandoned",
        "_locks",
        "_persisted_start",
        "_sent_start",
        "_writes",
        "counts",
        "in_flight",
        "loaded_state",
        "settings",
        "stopping",
    )

    def __init__(
        self,
        settings: events.SharePartitionSettings,
        loaded: events.LoadedState,
        tokens: Iterator[int] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.settings = settings
        self.counts = counts or Counts()
        self.stopping = False
        self.in_flight = load(loaded)
        self.loaded_state = replace(loaded, batches=())  # the runs have replaced them
        self._locks = Locks(self.in_flight, tokens or tokens_of(loaded.leader_epoch))
        self._writes = WriteQueue()
        self._sent_start = self._persisted_start = loaded.start_offset if loaded.start_stored else -1
        self._abandoned = False

    def handle(self, event: events.Event, now: float) -> Effects:
        """Applies an event; `now` in seconds. Returns what the shell has to do.

        Raises KafkaError for a request that is rejected; then nothing has changed. INVALID_REQUEST,
        INVALID_RECORD_STATE (see `core.acknowledge.RejectReason`), NOT_LEADER_OR_FOLLOWER once it stops.
        """
        effects = Effects()
        _HANDLERS[type(event)](self, event, now, effects)
        return effects

    def next_write(self) -> StateWrite | None:
        """Builds the state write of everything that waits; None if it was rejected since `write_due`."""
        transitions = self._writes.take()
        if not transitions:
            return None
        write = build_write(self.in_flight, self.loaded_state, transitions, self.settings)
        self._sent_start = write.start_offset
        return write

    # Queries

    @property
    def failed_under(self) -> tuple[int, int]:
        """The state epoch of the failures, and the leader epoch."""
        return self.loaded_state.failed_under

    @property
    def start_offset(self) -> int:
        """The share-partition start offset (SPSO) in memory."""
        return self.in_flight.start

    @property
    def writing(self) -> bool:
        """Whether a state write waits or is in flight."""
        return self._writes.busy

    @property
    def unused(self) -> bool:
        """Whether no lock is held and nothing has to be written; the times of delayed records are stored."""
        return self._writes.idle and not self.in_flight.locked and not self.in_flight.archiving

    def fetch_offset(self, log_start: int, log_end: int) -> int | None:
        """Returns the offset to read the log from; None if nothing can be acquired below `log_end`.

        Follows the log start offset first: records below it are deleted (retention, DeleteRecords).
        Raises NOT_LEADER_OR_FOLLOWER once it stops.
        """
        if self.stopping:
            raise relinquished()
        self.in_flight.drop_before(log_start)
        offset = self.in_flight.acquirable_offset(self.settings)
        # A record batch that waits for room is not read again before the write ends.
        end = min(log_end, self.in_flight.after_end) if self._writes.awaited else log_end
        return offset if offset is not None and offset < end else None

    def archiving(self, limit: int) -> Sequence[events.ArchivingRecords]:
        """Returns the records whose dead letters have to be written, by offset; none once it stops."""
        if self.stopping:
            return ()
        return archiving.requested_letters(self.in_flight, limit, self.settings.delivery_count_limit)

    def archiving_ranges(self) -> Sequence[tuple[int, int]]:
        """Returns the offsets that the next leader may load as archiving; some may be archived in memory."""
        return archiving.stored_ranges(self.in_flight, self._writes.letters())

    def next_deadline(self) -> float | None:
        """The time of the next `TimerFired`; it may be early, never late. None: nothing waits for a time."""
        deadline = self._locks.bound if self.in_flight.locked else None
        retry, due = self._writes.retry_at, self.in_flight.due
        if retry is not None and (deadline is None or retry < deadline):
            deadline = retry
        if due:
            waits_until = (due[0][0] - self.loaded_state.clock_offset_ms) / 1000
            deadline = waits_until if deadline is None else min(deadline, waits_until)
        return deadline

    # Event handlers

    def _loaded(self, event: events.Loaded, now: float, effects: Effects) -> None:
        self.in_flight.end_waits(self._stored_time(now))
        effects.deadline = self.next_deadline()
        self._advance_archiving(effects)
        self._persist_start_offset(effects)

    def _acquire(self, event: events.Acquire, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        request, log_batches, hidden, expired = event.request, event.log_batches, event.hidden, event.expired
        if request.lock:
            self.settings.check_lock(request.lock)
        if not log_batches:
            return
        settings, scheduled = self.settings, event.scheduled
        withheld: Sequence[events.LogBatch] = ()
        if scheduled:
            stored_time = self._stored_time(now)
            scheduled = [each for each in scheduled if each[2] > stored_time]
        if scheduled or hidden or expired:
            withheld = withheld_prefix(event, scheduled)
        if withheld:
            log_batches = withheld
            request, settings = unlimited(self.in_flight, request, settings, withheld)
        acquisition = Acquisition(self.in_flight, settings, request, event.offset, log_batches, self._writes)
        acquired = acquisition.run(self._locks, now)
        count_acquired(self.counts, acquired)
        if hidden:
            acquired = archive_hidden(self.in_flight, acquired, hidden, self.counts)
        if expired:
            acquired, transition = expire(
                self.in_flight, acquired, expired, self.counts, self.settings, self._stored_time(now)
            )
            if transition.batches:
                self._queue(transition, effects)
        if scheduled:
            acquired = postpone(self.in_flight, acquired, scheduled, self.counts)
            effects.deadline = self.next_deadline()
        if withheld:
            self._persist_start_offset(effects)
        elif acquired:
            self._abandoned = False
            effects.acquired = acquired
            effects.deadline = self.next_deadline()
            # A member that lost its session may never have received the records: it has to renew first.
            if request.lock and is_durable(request.member, request.lock) and not request.session:
                self._store_lock(acquired[0].first, effects)

    def _acknowledge(self, event: events.Acknowledge, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        batches, delay = event.batches, event.delay
        validate_batches(batches)
        if delay:
            validate_delay(batches, delay)
        if event.lock:
            validate_renewals(batches, "lock_ms")
            self.settings.check_lock(event.lock)
        if event.blameless:
            validate_releases(batches, "blameless")
        transition = Transition(event.reply, event.blameless or not self.settings.releases_count)
        waits = delay is not None or self.settings.backoff is not None
        retry = self._retry(RetryCause.RELEASE, now, delay) if waits else None
        renewed = mark(self.in_flight, self.settings, event.member, batches, transition, retry)
        count_acknowledged(self.counts, batches)
        if transition.failed is not None:
            transition.describe_failures(self._stored_time(now), event.reason)
        if renewed:
            deadline = now + (event.lock or self.settings.lock_duration)
            transition.locks = self._locks.renew(renewed, deadline, is_durable(event.member, event.lock))
            effects.deadline = self.next_deadline()  # a renewal may end a lock earlier
        self._reply_when_durable(transition, batches, effects)

    def _reconcile(self, event: events.Reconcile, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        member, batches, log_start, log_end, reply = event
        self.in_flight.drop_before(log_start)
        validate_reconciliation(batches)
        transition = Transition(reply, blameless=not self.settings.releases_count)
        deadline = now + self.settings.lock_duration
        lock = self._locks.issue(member, deadline)
        retry = self._retry(RetryCause.RELEASE, now)
        reconciliation = Reconciliation(self.in_flight, self.settings, lock, transition, retry)
        reconciliation.run(batches, log_end)
        if lock.last >= 0:
            self._locks.watch(lock)
        count_acknowledged(self.counts, batches)
        transition.describe_failures(self._stored_time(now))
        if self.settings.renew_enabled:
            transition.locks = self._locks.renew(reconciliation.renewed, deadline)
        self._abandoned = False
        effects.unreconciled = tuple(reconciliation.unreconciled)
        effects.deadline = self.next_deadline()
        self._reply_when_durable(transition, batches, effects)

    def _renew_all(self, event: events.RenewAll, now: float, effects: Effects) -> None:
        if self.settings.renew_enabled:
            held = list(self.in_flight.locked_by(event.member))
            transition = Transition()
            transition.locks = self._locks.renew(held, now + self.settings.lock_duration)
            effects.deadline = self.next_deadline()
            if transition.locks:
                self._writes.add(transition, effects)

    def _undo_acquire(self, event: events.UndoAcquire, now: float, effects: Effects) -> None:
        """Takes effect at once; nothing is written, since the acquisition was not.

        A durable lock was written; its records are released instead.
        """
        if self.stopping:
            raise relinquished()
        validate_batches(event.batches)
        validate_releases(event.batches, "unseen")
        transition = Transition()
        mark(self.in_flight, self.settings, event.member, event.batches, transition)
        self._undo(transition.runs, effects)
        effects.wake = True

    def _members_left(self, event: events.MembersLeft, now: float, effects: Effects) -> None:
        retry = self._retry(RetryCause.SESSION, now)
        for member in event.members:
            held = [(run, lock) for run, lock in self.in_flight.locked_by(member) if run.pending is None]
            if event.undo:
                self._undo([run for run, _ in held], effects)
                continue
            transition = Transition()
            for run, lock in held:
                if not event.session or (event.session == lock.session and not lock.durable):
                    target = transition.after_release(run.delivery_count, self.settings)
                    transition.add(run, target, run.next_delivery_ms(retry))
            transition.describe_failures(self._stored_time(now))
            if transition.runs:
                self._queue(transition, effects)
        effects.wake = event.undo
        self._abandoned = True
        effects.unused = self.unused

    def _configure(self, event: events.Configure, now: float, effects: Effects) -> None:
        self.settings = event.settings
        self._advance_archiving(effects)
        effects.wake = True

    def _timer_fired(self, event: events.TimerFired, now: float, effects: Effects) -> None:
        effects.wake = self.in_flight.end_waits(self._stored_time(now))
        lost = self._locks.expire(self.settings, now, self._retry(RetryCause.TIMEOUT, now))
        if lost:
            self.in_flight.advance()
            count_time_outs(self.counts, lost)
            effects.lost, effects.wake = lost, True
            self._queue(of_timeouts(self.in_flight, lost, self._stored_time(now)), effects)
        if self._writes.retry_at is not None and self._writes.retry_at <= now:
            self._writes.flush_retries(effects)
        effects.deadline = self.next_deadline()

    def _write_completed(self, event: events.WriteCompleted, now: float, effects: Effects) -> None:
        """Decides how a failed write is handled; no other code does.

        The transitions are rolled back and their requests rejected. If another leader or an administrator
        changed the stored state, the share-partition retires; else what could not be rolled back is written
        again later.
        """
        error, transitions = event.error, self._writes.complete(event.error, effects)
        if error is None:
            # Records that end make room for others, although the start offset may stay.
            crowded = self.in_flight.room(self.settings) <= 0
            completed = commit(self.in_flight, transitions)
            if completed.archived:
                count_archived(self.counts, transitions, completed)
            effects.wake |= completed.fetchable or crowded
            self._persisted_start = self._sent_start
            self._advance_archiving(effects)
        else:
            roll_back(self.in_flight, self._locks, transitions)
            if error.code in STATE_LOST:
                effects.retire = True
                return
            if not self.stopping:
                self._writes.add_retries(transitions, now)
        self._persist_start_offset(effects)
        effects.deadline = self.next_deadline() if error is not None or self.in_flight.due else None
        effects.unused = self._abandoned and self.unused

    def _letters_written(self, event: events.LettersWritten, now: float, effects: Effects) -> None:
        if not self.stopping:
            self._archive(event.ranges, effects)

    def _advance_archiving(self, effects: Effects) -> None:
        """Requests the letters of archiving records; without dead letters, archives them (Kafka)."""
        if not self.in_flight.archiving or self.stopping:
            return
        if self.settings.dead_letters:
            effects.archiving = bool(self.archiving(1))
        else:
            self._archive(((self.in_flight.start, self.in_flight.end),), effects)

    def _archive(self, ranges: Sequence[tuple[int, int]], effects: Effects) -> None:
        transition = archiving.letters_written(self.in_flight, ranges)
        if transition.batches:
            effects.wake = True
            self._queue(transition, effects)

    def _stop(self, event: events.Stop, now: float, effects: Effects) -> None:
        self.stopping = True
        self._writes.flush_retries(effects)

    def _retire(self, event: events.Retire, now: float, effects: Effects) -> None:
        self.stopping = True
        self._writes.reject_waiting(relinquished(), effects)
        effects.lost = self.in_flight.held(durable=False)

    def _undo(self, runs: list[Run], effects: Effects) -> None:
        self.counts.unseen += sum(run.size for run in runs)
        stored = undo(self.in_flight, runs)
        if stored.runs:
            self._queue(stored, effects)

    # Retries

    def _stored_time(self, now: float) -> float:
        """The time `now` in milliseconds by the clock of stored times."""
        return now * 1000 + self.loaded_state.clock_offset_ms

    def _retry(self, cause: RetryCause, now: float, delay: float | None = None) -> FailedDelivery | None:
        """How long records wait whose delivery failed at `now`; None: they do not wait."""
        backoff = self.settings.backoff
        if backoff is not None and cause not in backoff.on:
            backoff = None
        if delay is None and backoff is None:
            return None
        return FailedDelivery(self._stored_time(now), None if delay is None else delay * 1000, backoff)

    # State writes

    def _reply_when_durable(
        self, transition: Transition, batches: Sequence[AckBatch], effects: Effects
    ) -> None:
        """Queues the transition, or replies at once.

        An empty transition waits only if `batches` names offsets below a start offset that is not yet stored
        (`core.state_writes`, kind 3).
        """
        start = self.in_flight.start
        if (
            transition.runs
            or transition.batches
            or transition.locks
            or (start > self._persisted_start and any(batch.first < start for batch in batches))
        ):
            self._queue(transition, effects)
        elif transition.reply is not None:
            effects.replies = ((transition.reply, None),)

    def _store_lock(self, first: int, effects: Effects) -> None:
        """Stores the lock of an acquisition whose first record is `first`."""
        transition = Transition()
        transition.locks = (self._locks.make_durable(first),)
        self._writes.add(transition, effects)

    def _queue(self, transition: Transition, effects: Effects) -> None:
        runs = transition.runs
        if len(runs) == 1:
            transition.batches.append(runs[0].target_batch())
        elif runs:
            transition.batches += merged(run.target_batch() for run in runs)
        self._writes.add(transition, effects)

    def _persist_start_offset(self, effects: Effects) -> None:
        """Writes the start offset where no acknowledgement will carry it (`core.state_writes`, kind 2)."""
        carried = self.in_flight.runs or self.in_flight.start <= self._sent_start
        if not (carried or self.stopping):
            self._writes.add(Transition(), effects)


def relinquished() -> KafkaError:
    """The error of requests to a share-partition that this leader no longer serves."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader no longer serves this share-partition.")


_HANDLERS: Final[Mapping[type, Callable[[SharePartition, Any, float, Effects], None]]] = {
    events.Loaded: SharePartition._loaded,
    events.Acquire: SharePartition._acquire,
    events.Acknowledge: SharePartition._acknowledge,
    events.Reconcile: SharePartition._reconcile,
    events.RenewAll: SharePartition._renew_all,
    events.UndoAcquire: SharePartition._undo_acquire,
    events.MembersLeft: SharePartition._members_left,
    events.Configure: SharePartition._configure,
    events.TimerFired: SharePartition._timer_fired,
    events.WriteCompleted: SharePartition._write_completed,
    events.LettersWritten: SharePartition._letters_written,
    events.Stop: SharePartition._stop,
    events.Retire: SharePartition._retire,
}
