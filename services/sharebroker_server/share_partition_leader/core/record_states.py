"""The states of the records from start offset to end offset, and the transitions between them.

The theory is in `core.share_partition`, which drives this class: acquire, acknowledge, release or expire;
`write` the transitions that result; `complete` them once the write is answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, StateBatch, StateWrite
from sharebroker_server.share_partition_leader.core.acknowledge import (
    Acknowledgement,
    validate_batches,
    validate_delay,
    validate_releases,
)
from sharebroker_server.share_partition_leader.core.acquire import Acquisition, exclude
from sharebroker_server.share_partition_leader.core.durability import (
    build_write,
    commit,
    load,
    roll_back,
    state_batches,
)
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    Completed,
    Counts,
    LoadedState,
    LogBatch,
    LostLock,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import (
    AVAILABLE,
    Lock,
    Locks,
    Run,
    Transition,
    tokens_of,
)
from sharebroker_server.share_partition_leader.core.reconcile import (
    Reconciled,
    Reconciliation,
    held_by,
    validate_reconciliation,
)
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent, after_failed_delivery


class Expired(NamedTuple):
    """Locks that timed out, and the transition that stores it; it took effect already."""

    lost: tuple[LostLock, ...]
    transition: Transition | None


class RecordStates:
    """What the leader stores in memory about the records of one share-partition.

    `tokens`: see SharePartition. Raises: KafkaError UNKNOWN_SERVER_ERROR if the loaded state contradicts
    itself.
    """

    __slots__ = ("_in_flight", "_loaded", "_locks", "_transitions", "counts", "settings")

    def __init__(
        self,
        settings: SharePartitionSettings,
        loaded: LoadedState,
        tokens: Iterator[int] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.settings = settings
        self.counts = counts or Counts()
        self._loaded = loaded
        self._in_flight = load(loaded)
        self._locks = Locks(tokens or tokens_of(loaded.leader_epoch))
        self._transitions = 0

    @property
    def loaded_under(self) -> tuple[int, int]:
        """The state epoch and the leader epoch under which the state was loaded."""
        return self._loaded.state_epoch, self._loaded.leader_epoch

    @property
    def start_offset(self) -> int:
        """The share-partition start offset (SPSO): every record before it is finished."""
        return self._in_flight.start

    @property
    def end_offset(self) -> int:
        """The end offset (SPEO), inclusive; with nothing in flight the next offset to fetch."""
        return self._in_flight.end

    @property
    def in_flight_count(self) -> int:
        """Offsets from start to end offset, finished records and gaps in the log included."""
        return self._in_flight.count

    @property
    def delivery_complete_count(self) -> int:
        """Finished records between start and end offset: lag = log end - start offset - this."""
        return self._in_flight.complete_count

    def next_fetch_offset(self) -> int:
        """Offset to read the log from: the first available record, else the first that was never fetched."""
        available = self._in_flight.first_available()
        return self._in_flight.after_end if available is None else available

    def acquirable_offset(self) -> int | None:
        """The next fetch offset; None if a fetch could acquire nothing, whatever the log has."""
        in_flight = self._in_flight
        available = in_flight.first_available()
        if available is not None:
            return available
        return in_flight.after_end if in_flight.count < self.settings.max_record_locks else None

    def next_deadline(self) -> float | None:
        """When to call `expire`; may be early, never late. None: no lock can time out."""
        return self._locks.bound

    def acquire(
        self, request: AcquireRequest, fetch_offset: int, log_batches: Sequence[LogBatch], now: float
    ) -> list[AcquiredRange]:
        """Acquires records for a member, with a lock of `settings.lock_duration`.

        `log_batches` are (base, last) of the record batches read at `fetch_offset`, ascending. Ranges of the
        result ascend; clients acknowledge offsets in them that the log does not have as gaps.
        """
        if not log_batches:
            return []
        acquisition = Acquisition(self._in_flight, self.settings, request, fetch_offset, log_batches)
        acquired = acquisition.run(self._locks, now)
        self.counts.acquire(acquired)
        return acquired

    def archive_aborted(
        self, acquired: Sequence[AcquiredRange], aborted: Sequence[LogBatch]
    ) -> list[AcquiredRange]:
        """Archives markers and aborted records among what was just acquired; returns the rest.

        `aborted` holds (first, last) of their batches, ascending. The change is in memory until a later
        write: see `start_offset_to_persist`.
        """
        for piece in acquired:
            for first, last in aborted:
                if first <= piece.last and last >= piece.first:
                    self._in_flight.archive(max(first, piece.first), min(last, piece.last), RecordEvent.ABORT)
        remaining = exclude(acquired, aborted)
        self.counts.aborted += _offsets(acquired) - _offsets(remaining)
        return remaining

    def start_offset_to_persist(self, start_offset: int) -> Transition | None:
        """Returns a transition if the start offset passed `start_offset` and no run will carry it.

        Lag is computed from the stored start offset: without this write it would never become 0.
        """
        carried = self._in_flight.runs or self._in_flight.start <= start_offset
        return None if carried else self._transition()

    def late_ack_write(self, batches: Sequence[AckBatch], start_offset: int) -> Transition | None:
        """Returns a transition if `batches` name records that only the start offset in memory has passed.

        Such an acknowledgement changes nothing, but its reply must wait until the start offset is durable:
        the next leader would otherwise deliver records again whose acknowledgement succeeded.
        """
        in_memory_only = self._in_flight.start > start_offset
        late = in_memory_only and any(batch.first < self._in_flight.start for batch in batches)
        return self._transition() if late else None

    def acknowledge(
        self, member: str, batches: Sequence[AckBatch], now: float, delay: float = 0.0
    ) -> Transition | None:
        """Acknowledges records that a member holds; returns None if nothing has to be written.

        Renewals take effect at once. The records of a transition can neither be acquired nor acknowledged
        until it is completed, and with a `delay` (seconds, for releases only) until that has passed.

        Raises: KafkaError INVALID_REQUEST, INVALID_RECORD_STATE; then nothing has changed.
        """
        validate_batches(batches)
        if delay:
            validate_delay(batches, delay)
        transition = self._transition(now + delay if delay else None)
        renewed = self._mark(member, batches, transition)
        self.counts.acknowledge(batches)
        if renewed:
            self._renew(renewed, now + self.settings.lock_duration)
        return self._pending(transition)

    def reconcile(self, member: str, batches: Sequence[AckBatch], end: int, now: float) -> Reconciled:
        """Reconciles offsets that a planned batch names, acquired from this leader or an earlier one.

        Records without a holder are acquired for the member first, as one more delivery; the log ends before
        `end`. Archived records are written again, since they may be archived in memory only.
        See `core.reconcile`.
        Raises: KafkaError INVALID_REQUEST; then nothing has changed.
        """
        validate_reconciliation(batches)
        transition = self._transition()
        deadline = now + self.settings.lock_duration
        reconciliation = Reconciliation(
            self._in_flight,
            self.settings.delivery_count_limit,
            self._locks.issue(member, deadline),
            transition,
        )
        for batch in batches:
            reconciliation.add(batch, end)
        self.counts.acknowledge(batches)
        if reconciliation.renewed and self.settings.renew_enabled:
            self._renew(reconciliation.renewed, deadline)
        pending = self._pending(transition)
        if reconciliation.archived:
            pending, transition.batches = transition, [*transition.batches, *reconciliation.archived]
        return Reconciled(pending, tuple(reconciliation.left))

    def renew_all(self, member: str, now: float) -> None:
        """Renews every lock of a member, if renewals are enabled."""
        runs = self._in_flight.runs
        held = [(run, run.lock) for run in runs if run.lock is not None and run.lock.member == member]
        if held and self.settings.renew_enabled:
            self._renew(held, now + self.settings.lock_duration)

    def held_by(self, member: str) -> list[AcquiredRange]:
        """What a member holds and has not acknowledged, in order."""
        return held_by(self._in_flight, member)

    def undo_acquire(self, member: str, batches: Sequence[AckBatch]) -> None:
        """Undoes the acquisition of records that the application never received; `batches` are releases.

        Takes effect at once and is not written, as the acquisition was not: a new leader has neither.
        Raises: KafkaError INVALID_REQUEST, INVALID_RECORD_STATE; then nothing has changed.
        """
        validate_batches(batches)
        validate_releases(batches, "unseen")
        transition = self._transition()
        self._mark(member, batches, transition)
        self.counts.unseen += sum(run.size for run in transition.runs)
        self._in_flight.undo(transition.runs)

    def split_by_run(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits first..last into what is below the start offset, and the part in each run."""
        in_flight = self._in_flight
        starts = [first]
        if first < in_flight.start <= last:
            starts.append(in_flight.start)
        for run in in_flight.runs[in_flight.locate(first) :]:
            if run.last >= last:
                break
            starts.append(run.last + 1)
        return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))

    def undo_all(self, member: str) -> None:
        """`give_back` all that a member holds."""
        held = (run for run in self._in_flight.runs if run.lock is not None and run.lock.member == member)
        undone = [run for run in held if run.pending is None]
        self.counts.unseen += sum(run.size for run in undone)
        self._in_flight.undo(undone)

    def release_member(self, member: str, session: str = "") -> Transition | None:
        """Releases all that a member holds, or that one `session` of it acquired; None if that is nothing."""
        transition = self._transition()
        limit = self.settings.delivery_count_limit
        for run in self._in_flight.runs:
            lock = run.lock
            if lock is None or run.pending is not None or lock.member != member:
                continue
            if session in ("", lock.session):
                run.target = after_failed_delivery(RecordEvent.RELEASE, run.delivery_count, limit)
                run.pending = transition
                transition.runs.append(run)
        return self._pending(transition)

    def sizes(self) -> tuple[int, int, int, int]:
        """Offsets from start to end offset, runs, offsets in these runs, offsets that are locked."""
        runs = self._in_flight.runs
        locked = sum(run.size for run in runs if run.lock is not None)
        return self._in_flight.count, len(runs), sum(run.size for run in runs), locked

    def any_locked(self) -> bool:
        """Whether any record is locked."""
        return any(run.lock is not None for run in self._in_flight.runs)

    def held(self) -> list[LostLock]:
        """Every lock, as it would be lost with this object."""
        return [
            LostLock(run.lock.member, run.lock.token, run.first, run.last, run.delivery_count, run.state)
            for run in self._in_flight.runs
            if run.lock is not None
        ]

    def holds(self, member: str) -> bool:
        """Whether a member holds records; what it acknowledged counts until that is durable."""
        return any(run.lock is not None and run.lock.member == member for run in self._in_flight.runs)

    def next_is_throttled(self) -> bool:
        """Whether the next records failed so often that they are acquired alone and few at a time."""
        in_flight = self._in_flight
        available = in_flight.first_available()
        if available is None:
            return False
        index = in_flight.locate(available)
        batch = in_flight.runs[index].batch
        of_batch = takewhile(lambda run: run.batch is batch, islice(in_flight.runs, index, None))
        limit = self.settings.throttle_limit
        return any(run.state is AVAILABLE and run.delivery_count >= limit for run in of_batch)

    def expire(self, now: float) -> Expired:
        """Ends the locks that timed out; a record with a pending transition waits for its outcome."""
        lost = self._locks.expire(self._in_flight, self.settings.delivery_count_limit, now)
        if not lost:
            return Expired((), None)
        self._in_flight.advance()
        self.counts.lose(lost)
        transition = self._transition()
        transition.batches = state_batches(lost, to_target=False)
        return Expired(tuple(lost), transition)

    def write(self, transitions: Collection[Transition] = ()) -> StateWrite:
        """Builds the write of transitions; its start offset is the one after they are durable.

        Writes of a partition must reach the share coordinator in the order in which they were built.
        """
        return build_write(self._in_flight, self._loaded, transitions)

    def complete(self, transitions: Collection[Transition], error: ErrorCode | None = None) -> Completed:
        """Commits transitions whose write is durable, or rolls them back if it failed.

        The next `expire` ends a lock that timed out meanwhile: check `next_deadline` again.
        """
        if not error:
            for transition in transitions:
                if transition.until is not None:
                    self._locks.watch(transition.until)
            completed = commit(self._in_flight, transitions)
            if completed.archived:
                self.counts.complete(transitions, completed)
            return completed
        for deadline in roll_back(self._in_flight, transitions):
            self._locks.watch(deadline)
        return Completed(False, 0, 0, 0)

    def move_log_start(self, offset: int) -> bool:
        """Follows the log start offset (retention, DeleteRecords); returns whether the start offset moved.

        Records before it are deleted; acknowledgements of them are ignored. Stored by the next write.
        """
        if offset <= self._in_flight.start:
            return False
        self._in_flight.drop_before(offset)
        return True

    def _mark(
        self, member: str, batches: Sequence[AckBatch], transition: Transition
    ) -> list[tuple[Run, Lock]]:
        """Marks all that `batches` name with the transition, or nothing; returns what they renew."""
        acknowledgement = Acknowledgement(self._in_flight, self.settings, member, transition)
        try:
            for batch in batches:
                acknowledgement.add(batch)
        except KafkaError:
            acknowledgement.undo()
            raise
        return acknowledgement.renewed

    def _transition(self, until: float | None = None) -> Transition:
        self._transitions += 1
        return Transition(self._transitions, until)

    def _pending(self, transition: Transition) -> Transition | None:
        runs = transition.runs
        if not runs:
            return None
        if len(runs) == 1:
            run = runs[0]
            transition.batches = [StateBatch(run.first, run.last, run.target, run.delivery_count)]
        else:
            transition.batches = state_batches(runs, to_target=True)
        return transition

    def _renew(self, renewed: Sequence[tuple[Run, Lock]], deadline: float) -> None:
        old = renewed[0][1]
        new = self._locks.renew(old, deadline)
        for run, lock in renewed:
            if lock is not old:
                old, new = lock, self._locks.renew(lock, deadline)
            run.lock = new
        self._in_flight.coalesce([run for run, _ in renewed])


def _offsets(acquired: Sequence[AcquiredRange]) -> int:
    return sum(piece.last - piece.first + 1 for piece in acquired)
