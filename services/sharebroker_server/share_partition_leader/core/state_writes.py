"""The stored state of a share-partition: builds runs from it, and queues, builds and completes its writes.

*Contents.* A write treats records as finished only if that is durable or part of this write. A transition
that waits for another write can still be rolled back, so the start offset that is sent never passes it.

*Order.* A share-partition has at most one state write in flight, so that writes arrive in the order in which
they were built. Transitions that arrive meanwhile wait and go together into the next write. It is built only
when it is sent: the start offset it carries then covers everything that is durable or part of it.

*Failure.* A failed write is rolled back, and its requests are rejected. A lock timeout cannot be rolled back,
since another member may hold the record by now. Nor can the end of archiving records, since their dead
letters are written. Such a transition has `batches` but no `runs`. It waits in the retry queue until a write
succeeds. A late retry does no harm: of two states of an offset the higher
delivery count wins, and a newer time or durable lock of the same delivery count is written with it. A durable
lock is written as it is when the write is built; the result of a renewal waits for it, the acquisition does
not.

*Three kinds of change are not acknowledgements and still have to be stored:*

1. A lock timeout takes effect at once. If its write fails, it is retried.
2. The start offset can move over records that no acknowledgement names: markers, aborted transactions and
   expired records. Lag is computed from the stored start offset, so it is written again when nothing in
   flight will carry it.
3. An acknowledgement may name records below the start offset, which are ignored (Kafka). If that start offset
   is not stored yet, the reply waits for a write: the next leader could deliver the records again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import (
    FINISHED,
    Disposition,
    FailedRecords,
    FailureNote,
    JournalUpdate,
    RecordState,
    StateBatch,
    StateNote,
    StateWrite,
)
from sharebroker_server.share_partition_leader.core.archiving import mark_stored, note_failure
from sharebroker_server.share_partition_leader.core.events import (
    Completed,
    Counts,
    Effects,
    LoadedState,
    LostLock,
    Reply,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.locks import Locks
from sharebroker_server.share_partition_leader.core.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVING,
    AVAILABLE,
    Lock,
    Run,
    Transition,
    member_of,
    state_batch,
)
from sharebroker_server.share_partition_leader.core.transitions import TRANSITIONS, RecordEvent

_STORED_STATES: Final = {int(state): state for state in RecordState if state is not ACQUIRED}

STATE_LOST: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a state write after which the state must be loaded again.

Another leader or an administrator changed it.
"""

RETRY_INTERVAL: Final = 2.0
"""Seconds before changes whose write failed are written again."""


def load(loaded: LoadedState) -> InFlight:
    """Builds the runs from the stored batches.

    Records in a gap were acquired for the first time by the previous leader, so nothing about them was
    stored. They are available without a delivery, and the start offset stops there (Kafka: GapWindow).
    Records with a durable lock are acquired by its holder.
    Raises: KafkaError UNKNOWN_SERVER_ERROR if the batches overlap, descend, or hold acquired records.
    """
    in_flight = InFlight(loaded.start_offset)
    expected = loaded.start_offset
    locks: dict[StateNote, Lock] = {}
    runs: list[Run] = []
    for batch in loaded.batches:
        first, last, number, delivery_count, note = batch
        state = _STORED_STATES.get(number)
        if first < expected or last < first or state is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The stored share state is invalid at {batch}.")
        if first > expected:
            runs.append(Run(expected, first - 1, AVAILABLE, 0, None))
        run = Run(first, last, state, delivery_count, batch if state is AVAILABLE else None)
        if note is not None:
            if state is ARCHIVING:
                run.failure = note.failure
            elif state is AVAILABLE:
                if note.lock_token:
                    _lock(run, note, locks, loaded.clock_offset_ms)
                else:
                    run.not_before_ms = note.not_before_ms
        runs.append(run)
        expected = last + 1
    in_flight.fill(runs)
    in_flight.mark_available(loaded.start_offset)
    in_flight.advance()
    return in_flight


def _lock(run: Run, note: StateNote, locks: dict[StateNote, Lock], clock_offset_ms: float) -> None:
    """Acquires a loaded run by its durable lock; `locks` are those of other runs."""
    lock = locks.get(note)
    if lock is None:
        deadline = (note.not_before_ms - clock_offset_ms) / 1000
        lock = locks[note] = Lock(note.holder, note.lock_token, deadline, durable=True)
    lock.cover(run.first, run.last)
    run.state = TRANSITIONS[run.state, RecordEvent.ACQUIRE]
    run.delivery_count += 1
    run.lock = lock


def merged(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Ascending state batches with equal neighbours merged."""
    result: list[StateBatch] = []
    opened = None
    end = 0
    for batch in batches:
        first, last, state, delivery_count, note = batch
        if opened is not None:
            same = opened.state == state and opened.delivery_count == delivery_count and opened.note == note
            if same and end + 1 == first:
                end = last
                continue
            result.append(_ending_at(opened, end))
        opened, end = batch, last
    if opened is not None:
        result.append(_ending_at(opened, end))
    return result


def _ending_at(batch: StateBatch, last: int) -> StateBatch:
    return batch if batch.last == last else batch._replace(last=last)


def build_write(
    in_flight: InFlight,
    loaded: LoadedState,
    transitions: Collection[Transition],
    settings: SharePartitionSettings,
) -> StateWrite:
    """Builds the write of `transitions`: the start offset after them, and batches not below it."""
    written = set(transitions)
    start, passed = _start_offset_after(in_flight, written)
    finished = 0
    changes: list[StateBatch] = []
    failed: list[FailedRecords] = []
    for transition in transitions:
        changes += transition.batches
        if transition.failed is not None:
            failed += transition.failed
        if transition.batches and not transition.runs:
            changes += _newer_notes(in_flight, transition.batches, written, loaded.clock_offset_ms)
        for run in transition.runs:
            if run.pending is transition and run.target in FINISHED:
                finished += run.last - run.first + 1
        for lock in transition.locks:
            held = (run for run in in_flight.under(lock) if run.pending is None)
            changes += [run.locked_batch(lock, loaded.clock_offset_ms) for run in held]
    changes.sort(key=itemgetter(0))
    if changes and changes[0].first < start:
        changes = [batch._replace(first=max(batch.first, start)) for batch in changes if batch.last >= start]
    return StateWrite(
        loaded.state_epoch,
        loaded.leader_epoch,
        start,
        in_flight.complete_count + finished - passed,
        tuple(merged(changes) if len(changes) > 1 else changes),
        _journal_update(failed, settings.longest_journal) if failed and settings.longest_journal else None,
    )


def _journal_update(failed: Sequence[FailedRecords], limit: int) -> JournalUpdate:
    dropped = sum(entry.last - entry.first + 1 for entry in failed[:-limit])
    return JournalUpdate(tuple(failed[-limit:]), limit, dropped)


def _newer_notes(
    in_flight: InFlight,
    batches: Iterable[StateBatch],
    transitions: Collection[Transition],
    clock_offset_ms: float,
) -> Iterator[StateBatch]:
    """Yields the states after `transitions` of offsets of `batches`, if they would lose their notes.

    A lock or a blameless release after the timeout is stored with the same delivery count. Of a lock with a
    higher one it may not be certain that it is stored.
    """
    for first, last, _, delivery_count, note in batches:
        for run in in_flight.runs_from(first):
            if run.first > last:
                break
            newer = _state_after(run, transitions, clock_offset_ms)
            later = newer.state == AVAILABLE and newer.delivery_count >= delivery_count
            if later and newer.note != note:
                yield newer._replace(first=max(run.first, first), last=min(run.last, last))


def _state_after(run: Run, transitions: Collection[Transition], clock_offset_ms: float) -> StateBatch:
    """The state of a run that is stored once `transitions` are."""
    if run.pending in transitions:
        return run.target_batch()
    if run.lock is not None:
        return run.locked_batch(run.lock, clock_offset_ms)
    return state_batch(run.first, run.last, run.state, run.delivery_count, run.not_before_ms)


def _start_offset_after(in_flight: InFlight, transitions: set[Transition]) -> tuple[int, int]:
    """The start offset once `transitions` are durable, and how many terminal offsets it passes."""
    passed = 0
    for run in in_flight.runs:
        if run.pending is not None:
            if run.target not in FINISHED or run.pending not in transitions:
                return run.first, passed
        elif run.state not in FINISHED:
            return run.first, passed
        passed += run.last - run.first + 1
    return in_flight.after_end, passed


def commit(in_flight: InFlight, transitions: Iterable[Transition]) -> Completed:
    """Applies transitions whose write is durable; returns the changes."""
    acknowledged = released = archived = archiving = postponed = 0
    for transition in transitions:
        for run in transition.runs:
            if run.pending is not transition:
                continue
            target = run.target
            size = run.last - run.first + 1
            if transition.blameless and target is AVAILABLE:
                run.delivery_count = run.count_before
            run.unlock(target)
            if target is not AVAILABLE:
                if target is ACKNOWLEDGED:
                    acknowledged += size
                elif target is ARCHIVING:
                    archiving += size
                else:
                    archived += size
                continue
            if run.target_not_before_ms:
                run.not_before_ms = run.target_not_before_ms
                in_flight.wait(run)
                postponed += size
            else:
                in_flight.mark_available(run.first)
                released += size
    finished = acknowledged + archived
    in_flight.complete_count += finished
    in_flight.locked -= finished
    if released or postponed or archiving:
        in_flight.locked -= released + postponed + archiving
        in_flight.archiving += archiving
        in_flight.ready += released
        in_flight.waiting += postponed
    if in_flight.archiving:
        mark_stored(in_flight, transitions)
    moved = in_flight.advance()
    if in_flight.runs:
        in_flight.coalesce(run for transition in transitions for run in transition.runs)
    return Completed(moved or released > 0, acknowledged, released, archived + archiving)


def of_timeouts(in_flight: InFlight, lost: Sequence[LostLock], time_ms: float) -> Transition:
    """Returns the transition that stores lock timeouts, which are in effect already."""
    transition = Transition()
    batches: list[StateBatch] = []
    failed: list[FailedRecords] = []
    for member, _, first, last, count, state, not_before_ms in lost:
        failure = None
        if state is not AVAILABLE:
            member_id = member_of(member)
            failed.append(FailedRecords(first, last, Disposition.EXHAUSTED, count, member_id=member_id))
            if state is ARCHIVING:
                failure = FailureNote(Disposition.EXHAUSTED, int(time_ms), member_id)
                note_failure(in_flight, first, last, failure)
        batches.append(state_batch(first, last, state, count, not_before_ms, failure))
    transition.batches = merged(batches)
    transition.failed = failed or None
    transition.describe_failures(time_ms)
    return transition


def count_archived(counts: Counts, transitions: Collection[Transition], completed: Completed) -> None:
    """Counts what committed transitions archived, without records that the log deleted meanwhile."""
    exhausted = completed.archived
    for transition in transitions:
        counts.rejected += transition.rejected
        counts.gaps += transition.gaps
        exhausted -= transition.rejected + transition.gaps
    counts.exhausted += max(exhausted, 0)


def roll_back(in_flight: InFlight, locks: Locks, transitions: Iterable[Transition]) -> None:
    """Rolls back transitions whose write failed; their locks can time out again.

    Delivery counts stay: the records were delivered. A release may be stored although its write failed. A
    later lock is stored with the same count, since of two counts the share coordinator keeps the higher one.
    """
    for transition in transitions:
        undone = [run for run in transition.runs if run.pending is transition]
        for run in undone:
            run.counted |= run.target is AVAILABLE and not transition.blameless
            run.cancel()
        for lock in dict.fromkeys(run.lock for run in undone if run.lock is not None):
            locks.watch(lock)
        in_flight.coalesce(undone)


def undo(in_flight: InFlight, runs: Iterable[Run]) -> Transition:
    """Undoes acquisitions in memory; returns the transition that releases records with durable locks."""
    stored = Transition(blameless=True)
    undone = []
    for run in runs:
        if run.lock is not None and run.lock.durable:
            stored.add(run, AVAILABLE)
        else:
            undone.append(run)
    in_flight.undo(undone)
    return stored


class WriteQueue:
    """The transitions of one share-partition that are not durable yet, with the replies that wait for them.

    `busy` is true while a transition waits or a write is in flight; `awaited`, if an acquisition waits for
    the end of that write.
    """

    __slots__ = ("_retry", "_sent", "_waiting", "awaited", "busy", "retry_at")

    def __init__(self) -> None:
        self.awaited = False
        self.busy = False
        self.retry_at: float | None = None
        self._waiting: list[Transition] = []
        self._sent: list[Transition] = []
        self._retry: list[Transition] = []

    @property
    def idle(self) -> bool:
        """Whether nothing waits, is in flight, or has to be retried."""
        return not self.busy and not self._retry

    def add(self, transition: Transition, effects: Effects) -> None:
        """Queues a transition; sets `write_due` unless a write is due or in flight."""
        self._waiting.append(transition)
        queued = effects.transitions
        effects.transitions = (*queued, transition) if queued else (transition,)
        if not self.busy:
            self.busy = effects.write_due = True

    def will_end(self, number: int) -> bool:
        """Whether at least this many records end, and need no lock, once all transitions are durable."""
        for transition in (*self._sent, *self._waiting):
            for run in transition.runs:
                if run.pending is transition and run.target is not AVAILABLE:
                    number -= run.size
                    if number <= 0:
                        return True
        return False

    def letters(self) -> Iterator[StateBatch]:
        """The state batches that end archiving records, until they are durable."""
        for transition in (*self._waiting, *self._sent, *self._retry):
            if transition.letters:
                yield from transition.batches

    def take(self) -> list[Transition]:
        """Moves what waits into the write in flight; [] if it was rejected since."""
        self._sent, self._waiting = self._waiting, []
        self.busy = bool(self._sent)
        if self.retry_at is not None and self.busy:
            # Before a write moves the stored start offset over failed records, it must list them.
            self._sent += [transition for transition in self._retry if transition.failed]
            self._retry = [transition for transition in self._retry if not transition.failed]
        return self._sent

    def complete(self, error: KafkaError | None, effects: Effects) -> list[Transition]:
        """Ends the write in flight: replies, sets `write_due` for the next one, returns its transitions.

        Sets `wake` for the acquisitions that waited for it.
        """
        sent, self._sent = self._sent, []
        effects.replies = _replies(sent, error)
        effects.wake, self.awaited = self.awaited, False
        self.busy = effects.write_due = bool(self._waiting)
        return sent

    def reject_waiting(self, error: KafkaError, effects: Effects) -> None:
        """Rejects what is not in flight, and retries nothing any more."""
        waiting, self._waiting = self._waiting, []
        self._retry, self.retry_at = [], None
        effects.replies = _replies(waiting, error)

    def add_retries(self, failed: Iterable[Transition], now: float) -> None:
        """Keeps those transitions of a failed write that could not be rolled back."""
        self._retry += [item for item in failed if not item.runs and _is_retried(item)]
        if self._retry and self.retry_at is None:
            self.retry_at = now + RETRY_INTERVAL

    def flush_retries(self, effects: Effects) -> None:
        """Queues the failed transitions again."""
        retry, self._retry, self.retry_at = self._retry, [], None
        for transition in retry:
            self.add(transition, effects)


def _is_retried(transition: Transition) -> bool:
    """Returns whether a transition that was not rolled back is written again.

    One that only stores the start offset is, too: no later write may store it.
    """
    return bool(transition.batches) or transition.reply is None


def _replies(
    transitions: Iterable[Transition], error: KafkaError | None
) -> list[tuple[Reply, KafkaError | None]]:
    return [(transition.reply, error) for transition in transitions if transition.reply is not None]
