"""One share-partition: the records of a topic partition as one share group sees them, on their leader.

Holds the window SPSO..SPEO in memory and says what has to be persisted; it reads no log, sends nothing and
has no clock. Source: SharePartition of Kafka 4.2 (KIP-932, KIP-1206, KIP-1222).

How a caller drives it: acquire what was read from the log at `next_fetch_offset`; acknowledge, release or
expire; send `write` of the transitions that came out of that, and answer once it is durable and `complete`.
Transitions that wait while a write is under way go together into the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, StateWrite
from sharebroker_server.share_partition_leader.core.acknowledge import (
    Acknowledgement,
    validate_batches,
    validate_delay,
    validate_releases,
)
from sharebroker_server.share_partition_leader.core.acquire import Acquisition, LogBatch, exclude
from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.share_partition_leader.core.durability import batches_of, commit, roll_back, write_of
from sharebroker_server.share_partition_leader.core.in_flight import (
    AVAILABLE,
    Lock,
    Run,
    Transition,
)
from sharebroker_server.share_partition_leader.core.loading import load
from sharebroker_server.share_partition_leader.core.locks import Locks, tokens_of
from sharebroker_server.share_partition_leader.core.reconcile import (
    Settled,
    Settlement,
    held_by,
    validate_settlement,
)
from sharebroker_server.share_partition_leader.core.states import Event, after_failed_delivery
from sharebroker_server.share_partition_leader.core.values import (
    AcquireRequest,
    Freed,
    LoadedState,
    LostLock,
    SharePartitionSettings,
)


class Expired(NamedTuple):
    """Locks that ran out and what to write of it; in effect already, whatever becomes of the write."""

    lost: tuple[LostLock, ...]
    transition: Transition | None


class SharePartition:
    """The state machine of one share-partition; constructed from the state the share coordinator has.

    `tokens` is shared by all that are made of a partition under one leader epoch, one after the other or for
    several groups: a token of an earlier one must never fit a later one's lock.
    `counts` are for others to read.
    Raises: KafkaError UNKNOWN_SERVER_ERROR when the loaded state contradicts itself.
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
    def loaded_start(self) -> int:
        """SPSO as it was written when the state was loaded."""
        return self._loaded.start_offset

    @property
    def start_offset(self) -> int:
        """SPSO: every record before it is finished."""
        return self._in_flight.start

    @property
    def end_offset(self) -> int:
        """SPEO: last offset ever fetched, inclusive; with nothing in flight the next offset to fetch."""
        return self._in_flight.end

    @property
    def in_flight_count(self) -> int:
        """Width of the window SPSO..SPEO, finished records and gaps in the log included."""
        return self._in_flight.count

    @property
    def delivery_complete_count(self) -> int:
        """Finished records between SPSO and SPEO: lag = log end - SPSO - this."""
        return self._in_flight.complete_count

    def next_fetch_offset(self) -> int:
        """Offset to read the log from: the first available record, else the first never fetched."""
        available = self._in_flight.first_available()
        return self._in_flight.after_end if available is None else available

    def can_acquire(self) -> bool:
        """Whether a fetch could acquire anything, provided the log has it."""
        in_flight = self._in_flight
        return in_flight.first_available() is not None or in_flight.count < self.settings.max_record_locks

    def next_deadline(self) -> float | None:
        """When to call `expire`; may be early, never late. None: no lock can run out."""
        return self._locks.next_deadline()

    def acquire(
        self, request: AcquireRequest, fetch_offset: int, log_batches: Sequence[LogBatch], now: float
    ) -> list[AcquiredRange]:
        """Hand records to a member under a lock of `settings.lock_duration`.

        `log_batches` is what the log gave for `fetch_offset`: (base, last) of record batches, ascending.
        Ranges of the result ascend; offsets in them that the log does not have are acknowledged as gaps.
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
        """Take markers, and records of aborted transactions (read_committed), out of what was just acquired.

        `aborted` holds (first, last) of their batches, ascending. What remains is returned. In memory until a
        later write: see `untold`.
        """
        for piece in acquired:
            for first, last in aborted:
                if first <= piece.last and last >= piece.first:
                    self._in_flight.archive(max(first, piece.first), min(last, piece.last), Event.ABORT)
        left = exclude(acquired, aborted)
        self.counts.aborted += _offsets(acquired) - _offsets(left)
        return left

    def untold(self, start_offset: int) -> Transition | None:
        """A change to write where the SPSO has passed `start_offset` and nothing in flight will ever tell.

        Lag is counted from what is written: it would never become 0.
        """
        told = self._in_flight.runs or self._in_flight.start <= start_offset
        return None if told else self._transition()

    def passed(self, batches: Sequence[AckBatch], start_offset: int) -> Transition | None:
        """A change to write where `batches` name what the SPSO has passed, which is stored at `start_offset`.

        Whoever accepts a record too late that is archived by then must not hear that all is well before it is
        so: the next leader would deliver it again.
        """
        in_memory_only = self._in_flight.start > start_offset
        late = in_memory_only and any(batch.first < self._in_flight.start for batch in batches)
        return self._transition() if late else None

    def acknowledge(
        self, member: str, batches: Sequence[AckBatch], now: float, delay: float = 0.0
    ) -> Transition | None:
        """Take a member's word on records it holds; None when there is nothing to persist.

        Renewals take effect at once. The records of a transition are neither fetchable nor acknowledgeable
        until it is completed; with a `delay` (seconds, for releases only), not before that has passed.

        Raises: KafkaError INVALID_REQUEST, INVALID_RECORD_STATE; then nothing of it has happened.
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

    def settle(self, member: str, batches: Sequence[AckBatch], end: int, now: float) -> Settled:
        """Take a member's word on records it was given once, of this leader or of another; see core.settle.

        What nobody holds is acquired for the member first, as one more delivery; the log ends before `end`.
        What is archived is written once more: it may be so in memory alone.
        Raises: KafkaError INVALID_REQUEST; then nothing of it has happened.
        """
        validate_settlement(batches)
        transition = self._transition()
        deadline = now + self.settings.lock_duration
        settlement = Settlement(
            self._in_flight,
            self.settings.delivery_count_limit,
            self._locks.issue(member, deadline),
            transition,
        )
        for batch in batches:
            settlement.add(batch, end)
        self.counts.acknowledge(batches)
        if settlement.renewed and self.settings.renew_enabled:
            self._renew(settlement.renewed, deadline)
        pending = self._pending(transition)
        if settlement.archived:
            pending, transition.batches = transition, [*transition.batches, *settlement.archived]
        return Settled(pending, tuple(settlement.left))

    def renew_all(self, member: str, now: float) -> None:
        """Renew every lock of a member, where renewing is allowed."""
        runs = self._in_flight.runs
        held = [(run, run.lock) for run in runs if run.lock is not None and run.lock.member == member]
        if held and self.settings.renew_enabled:
            self._renew(held, now + self.settings.lock_duration)

    def held_by(self, member: str) -> list[AcquiredRange]:
        """What a member holds and has not answered for, in order."""
        return held_by(self._in_flight, member)

    def give_back(self, member: str, batches: Sequence[AckBatch]) -> None:
        """Undo the acquisition of records that a member holds and never looked at; `batches` release.

        In effect at once and not written, as the acquisition was not: a new leader does not know of either.
        Raises: KafkaError INVALID_REQUEST, INVALID_RECORD_STATE; then nothing of it has happened.
        """
        validate_batches(batches)
        validate_releases(batches, "unseen")
        transition = self._transition()
        self._mark(member, batches, transition)
        self.counts.unseen += sum(run.size for run in transition.runs)
        self._in_flight.undo(transition.runs)

    def pieces(self, first: int, last: int) -> list[tuple[int, int]]:
        """Cut first..last into what fares alike in an acknowledgement: what the SPSO passed, each run."""
        in_flight = self._in_flight
        starts = [first]
        if first < in_flight.start <= last:
            starts.append(in_flight.start)
        for run in in_flight.runs[in_flight.locate(first) :]:
            if run.last >= last:
                break
            starts.append(run.last + 1)
        return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))

    def give_back_all(self, member: str) -> None:
        """`give_back` all that a member holds."""
        held = (run for run in self._in_flight.runs if run.lock is not None and run.lock.member == member)
        undone = [run for run in held if run.pending is None]
        self.counts.unseen += sum(run.size for run in undone)
        self._in_flight.undo(undone)

    def release_member(self, member: str, session: str = "") -> Transition | None:
        """Give back all a member holds, or one `session` of it acquired; None when that is nothing."""
        transition = self._transition()
        limit = self.settings.delivery_count_limit
        for run in self._in_flight.runs:
            lock = run.lock
            if lock is None or run.pending is not None or lock.member != member:
                continue
            if session in ("", lock.session):
                run.target = after_failed_delivery(Event.RELEASE, run.delivery_count, limit)
                run.pending = transition
                transition.runs.append(run)
        return self._pending(transition)

    def locked(self) -> tuple[int, int, int]:
        """How many offsets are locked, of how many runs the window is made, and how many these have."""
        runs = self._in_flight.runs
        held = sum(run.size for run in runs if run.lock is not None)
        return held, len(runs), sum(run.size for run in runs)

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

    def isolates_next(self) -> bool:
        """Whether the next records failed so often that `acquire` gives them alone and few at a time."""
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
        """End the locks that have run out; records with a pending transition wait for its outcome."""
        lost = self._locks.expire(self._in_flight, self.settings.delivery_count_limit, now)
        if not lost:
            return Expired((), None)
        self._in_flight.advance()
        self.counts.lose(lost)
        transition = self._transition()
        transition.batches = batches_of(lost, to_target=False)
        return Expired(tuple(lost), transition)

    def write(self, transitions: Collection[Transition] = ()) -> StateWrite:
        """Build the write for transitions, as late as possible: SPSO as it will be once it is durable.

        Writes of a partition must reach the share coordinator in the order in which they were built.
        """
        return write_of(self._in_flight, self._loaded, transitions)

    def complete(self, transitions: Collection[Transition], error: ErrorCode | None = None) -> Freed:
        """Commit transitions whose write is durable, or roll them back when it failed.

        A lock that ran out meanwhile is ended by the next `expire`: look at `next_deadline` again.
        """
        if not error:
            for transition in transitions:
                if transition.until is not None:
                    self._locks.watch(transition.until)
            freed = commit(self._in_flight, transitions)
            if freed.archived:
                self.counts.complete(transitions, freed)
            return freed
        for deadline in roll_back(self._in_flight, transitions):
            self._locks.watch(deadline)
        return Freed(False, 0, 0, 0)

    def move_log_start(self, offset: int) -> bool:
        """Follow the log's start (retention, delete-records); False if the SPSO is there already.

        What lies before it is gone; an acknowledgement of it is ignored. Persisted by the next write.
        """
        if offset <= self._in_flight.start:
            return False
        self._in_flight.drop_before(offset)
        return True

    def _mark(
        self, member: str, batches: Sequence[AckBatch], transition: Transition
    ) -> list[tuple[Run, Lock]]:
        """Mark all that `batches` name with the transition, or nothing; what they renew."""
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
        if not transition.runs:
            return None
        transition.batches = batches_of(transition.runs, to_target=True)
        return transition

    def _renew(self, renewed: Sequence[tuple[Run, Lock]], deadline: float) -> None:
        old = renewed[0][1]
        new = self._locks.renew(old, deadline)
        for run, lock in renewed:
            if lock is not old:
                old, new = lock, self._locks.renew(lock, deadline)
            run.lock = new
        self._in_flight.rejoin([run for run, _ in renewed])


def _offsets(acquired: Sequence[AcquiredRange]) -> int:
    return sum(piece.last - piece.first + 1 for piece in acquired)
