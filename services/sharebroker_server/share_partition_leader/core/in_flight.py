"""The records from start to end offset, as ordered runs of offsets with their locks.

The theory is in `core.share_partition`. Two parallel lists, first offsets and runs, are searched by
bisection. Most operations cost O(log n) for n runs, plus the insertions into the lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Final, NamedTuple

from sharebroker_protocol.model import AcquiredRange, RecordState, StateBatch
from sharebroker_server.share_partition_leader.core.events import Counts, LostLock, Reply
from sharebroker_server.share_partition_leader.core.transitions import (
    TRANSITIONS,
    RecordEvent,
    after_failed_delivery,
)

AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED

DELAYED_RELEASE: Final = ""
"""The holder of records whose release is delayed; no member has this name."""


class Batch(NamedTuple):
    """The offsets that were first acquired, or loaded, together; the unit of redelivery."""

    first: int
    last: int


@dataclass(slots=True, eq=False)
class Lock:
    """An acquisition lock, shared by all runs of one acquisition; immutable: a renewal creates another.

    It ends with the share `session` that it was issued to, if any; its `member` may acknowledge it in another
    session.
    """

    member: str
    token: int
    deadline: float
    session: str = ""


class Transition:
    """State changes that are committed or rolled back together.

    `batches` have to be written. `runs` wait for the outcome; a change that is in effect already (lock
    timeout) has none. `reply` receives the outcome. `until` delays a release: its records stay locked by
    DELAYED_RELEASE until then. `rejected` and `gaps` count archived offsets by reason.
    """

    __slots__ = ("batches", "gaps", "rejected", "reply", "runs", "until")

    def __init__(self, reply: Reply | None = None, until: float | None = None) -> None:
        self.reply = reply
        self.until = until
        self.runs: list[Run] = []
        self.batches: list[StateBatch] = []
        self.rejected = 0
        self.gaps = 0

    def add(self, run: Run, target: RecordState) -> None:
        """Adds a run; it changes to `target` when the transition is committed."""
        run.target = target
        run.pending = self
        self.runs.append(run)


@dataclass(slots=True, eq=False)
class Run:
    """Offsets first..last in one state, with one delivery count and one lock.

    A run has a `lock` exactly while it is ACQUIRED. It stays ACQUIRED while a `pending` transition to
    `target` is written. A run without a `batch` is a gap in the loaded state.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    batch: Batch | None
    lock: Lock | None = None
    pending: Transition | None = None
    target: RecordState = AVAILABLE

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def unlock(self, state: RecordState) -> None:
        """Ends the lock and any pending transition, and sets the state."""
        self.state = state
        self.lock = None
        self.pending = None

    def continues_as(self, other: Run) -> bool:
        """Whether `other` is adjacent and differs only in its offsets; pending runs stay apart."""
        return (
            self.last + 1 == other.first
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.lock is other.lock
            and self.batch is other.batch
            and self.pending is None
            and other.pending is None
        )


class InFlight:
    """Ordered, disjoint runs and the pointers that they define.

    While there are runs, `start` is the first offset of the first run, which is not terminal, and `end` is
    the last offset of the last run (inclusive). Without runs both are the next offset to fetch, and no offset
    is in flight; `after_end` covers both cases. Offsets between runs do not exist in the log.
    `complete_count` counts the terminal offsets.
    """

    __slots__ = ("_available_from", "complete_count", "end", "firsts", "runs", "start")

    def __init__(self, start_offset: int) -> None:
        self.start = start_offset
        self.end = start_offset
        self.firsts: list[int] = []
        self.runs: list[Run] = []
        self.complete_count = 0
        # No AVAILABLE run lies before this offset; None: there is none at all.
        self._available_from: int | None = None

    @property
    def count(self) -> int:
        """Offsets from start to end offset, finished records and gaps included, as Kafka counts them."""
        return self.end - self.start + 1 if self.runs else 0

    @property
    def after_end(self) -> int:
        """The first offset that was never fetched."""
        return self.end + 1 if self.runs else self.end

    def acquirable_offset(self, max_record_locks: int) -> int | None:
        """Offset to read the log from: the first available record, else the first that was never fetched.

        None if a fetch could acquire nothing, whatever the log has.
        """
        available = self.first_available()
        if available is not None:
            return available
        return self.after_end if self.count < max_record_locks else None

    def next_is_throttled(self, throttle_limit: int) -> bool:
        """Whether the next records failed so often that they are acquired alone and few at a time."""
        available = self.first_available()
        if available is None:
            return False
        index = self.locate(available)
        batch = self.runs[index].batch
        of_batch = takewhile(lambda run: run.batch is batch, islice(self.runs, index, None))
        return any(run.state is AVAILABLE and run.delivery_count >= throttle_limit for run in of_batch)

    def sizes(self) -> tuple[int, int, int, int]:
        """Offsets from start to end offset, runs, offsets in these runs, offsets that are locked."""
        locked = sum(run.size for run in self.runs if run.lock is not None)
        return self.count, len(self.runs), sum(run.size for run in self.runs), locked

    def split_by_run(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits first..last into parts of which an acknowledgement succeeds or fails as a whole.

        These are the part below the start offset, and the part in each run.
        """
        starts = [first]
        if first < self.start <= last:
            starts.append(self.start)
        for run in self.runs[self.locate(first) :]:
            if run.last >= last:
                break
            starts.append(run.last + 1)
        return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))

    # Locks

    def held(self) -> list[LostLock]:
        """Every lock, as it would be lost if the share-partition retired."""
        return [
            LostLock(run.lock.member, run.lock.token, run.first, run.last, run.delivery_count, run.state)
            for run in self.runs
            if run.lock is not None
        ]

    def held_by(self, member: str) -> list[AcquiredRange]:
        """What a member holds and has not acknowledged; neighbours of one acquisition are merged."""
        held: list[AcquiredRange] = []
        for run, lock in self.locked_by(member):
            if run.pending is not None:
                continue
            item = AcquiredRange(run.first, run.last, run.delivery_count, lock.token, lock.deadline)
            if held and held[-1].last + 1 == item.first and held[-1][2:] == item[2:]:
                item = item._replace(first=held.pop().first)
            held.append(item)
        return held

    def holds(self, member: str) -> bool:
        """Whether a member holds records; what it acknowledged counts until that is durable."""
        return any(self.locked_by(member))

    def locked_by(self, member: str) -> Iterator[tuple[Run, Lock]]:
        """The runs that a member holds, with and without a pending transition."""
        return ((run, run.lock) for run in self.runs if run.lock is not None and run.lock.member == member)

    # Search

    def locate(self, offset: int) -> int:
        """The index of the run that contains the offset, else of the first run after it."""
        index = bisect_right(self.firsts, offset) - 1
        return index if index >= 0 and self.runs[index].last >= offset else index + 1

    def first_available(self) -> int | None:
        """The first AVAILABLE offset, or None; the search starts where the last one ended."""
        if self._available_from is None:
            return None
        for index in range(self.locate(self._available_from), len(self.runs)):
            if self.runs[index].state is AVAILABLE:
                self._available_from = self.runs[index].first
                return self._available_from
        self._available_from = None
        return None

    # Changes

    def mark_available(self, offset: int) -> None:
        """Notes that a run at this offset became AVAILABLE."""
        if self._available_from is None or offset < self._available_from:
            self._available_from = offset

    def append(self, run: Run) -> None:
        """Adds a run after all others; without runs the start offset moves to it, over a gap in the log."""
        if not self.runs:
            self.start = run.first
        self.runs.append(run)
        self.firsts.append(run.first)
        self.end = run.last

    def replace(self, index: int, runs: list[Run]) -> None:
        """Replaces one run by several that have the same offsets."""
        self.runs[index : index + 1] = runs
        self.firsts[index : index + 1] = [run.first for run in runs]

    def split_at(self, index: int, first: int, last: int) -> int:
        """Splits a run so that first..last, clipped to it, is a run of its own; returns its index.

        The run must not be pending: transitions refer to their runs by identity.
        """
        run = self.runs[index]
        if run.last > last:
            self._split(index, last + 1)
        if run.first < first:
            self._split(index, first)
            return index + 1
        return index

    def coalesce_at(self, index: int) -> None:
        """Merges a run with its equal neighbours."""
        runs = self.runs
        if index + 1 < len(runs) and runs[index].continues_as(runs[index + 1]):
            self._absorb_next(index)
        if index > 0 and runs[index - 1].continues_as(runs[index]):
            self._absorb_next(index - 1)

    def coalesce(self, runs: list[Run]) -> None:
        """Merges changed runs with their equal neighbours; skips runs that were dropped."""
        for run in runs:
            index = bisect_left(self.firsts, run.first)
            if index < len(self.runs) and self.runs[index] is run:
                self.coalesce_at(index)

    def undo(self, runs: list[Run]) -> None:
        """Makes acquired runs available again; the delivery does not count."""
        for run in runs:
            run.delivery_count -= 1
            run.unlock(TRANSITIONS[run.state, RecordEvent.UNDO])
            self.mark_available(run.first)
        self.coalesce(runs)

    def archive(self, first: int, last: int, event: RecordEvent) -> None:
        """Archives what `event` may archive in first..last, in memory; the start offset advances."""
        index = self.locate(first)
        while index < len(self.runs) and self.runs[index].first <= last:
            run = self.runs[index]
            if run.pending is None and (run.state, event) in TRANSITIONS:
                index = self.split_at(index, first, last)
                run = self.runs[index]
                run.unlock(TRANSITIONS[run.state, event])
                self.complete_count += run.size
            index += 1
        self.advance()

    def advance(self) -> bool:
        """Moves the start offset over leading terminal runs and drops them; returns whether it moved."""
        passed = 0
        for run in self.runs:
            if run.state < ACKNOWLEDGED:
                break
            self.complete_count -= run.size
            passed += 1
        self._drop(passed)
        return passed > 0

    def drop_before(self, offset: int) -> None:
        """Drops everything below an offset, in any state: the log deleted it (retention, DeleteRecords).

        Acknowledgements of these records are ignored. The new start offset is stored by the next write.
        """
        if offset <= self.start:
            return
        passed = 0
        for run in self.runs:
            if run.first >= offset:
                break
            if run.state >= ACKNOWLEDGED:
                self.complete_count -= min(run.last, offset - 1) - run.first + 1
            if run.last >= offset:
                run.first = self.firsts[passed] = offset
                break
            run.unlock(ARCHIVED)
            passed += 1
        self._drop(passed)
        if not self.runs:
            self.start = self.end = offset
        self.advance()

    def _drop(self, number: int) -> None:
        if number:
            del self.runs[:number]
            del self.firsts[:number]
        if self.runs:
            self.start = self.firsts[0]
        elif number:
            self.start = self.end = self.end + 1

    def _split(self, index: int, at: int) -> None:
        run = self.runs[index]
        rest = Run(at, run.last, run.state, run.delivery_count, run.batch, run.lock)
        run.last = at - 1
        self.runs.insert(index + 1, rest)
        self.firsts.insert(index + 1, at)

    def _absorb_next(self, index: int) -> None:
        self.runs[index].last = self.runs[index + 1].last
        del self.runs[index + 1]
        del self.firsts[index + 1]


def tokens_of(leader_epoch: int) -> Iterator[int]:
    """The tokens of a leader epoch: the epoch in the high 32 bits, a counter in the low ones."""
    return count((leader_epoch << 32) + 1)


class Locks:
    """Issues acquisition locks and ends those that timed out.

    The runs refer to their locks; this object has the token counter and a lower bound of all deadlines.

    No two acquisitions of a partition share a token, not even if the state was loaded again in between:
    `tokens` continues as long as the leader epoch. `bound` is a time at or before the earliest deadline, or
    None without locks. If its lock has already ended, `expire` finds nothing and computes the next bound.
    """

    __slots__ = ("_tokens", "bound")

    def __init__(self, tokens: Iterator[int]) -> None:
        self._tokens = tokens
        self.bound: float | None = None

    def issue(self, member: str, deadline: float, session: str = "") -> Lock:
        """Creates the lock of a new acquisition."""
        self.watch(deadline)
        return Lock(member, next(self._tokens), deadline, session)

    def renew(self, in_flight: InFlight, held: Sequence[tuple[Run, Lock]], deadline: float) -> None:
        """Replaces the locks of runs by their successors: same acquisition, later deadline."""
        successors: dict[Lock, Lock] = {}
        for run, lock in held:
            if lock not in successors:
                self.watch(deadline)
                successors[lock] = Lock(lock.member, lock.token, deadline, lock.session)
            run.lock = successors[lock]
        in_flight.coalesce([run for run, _ in held])

    def watch(self, deadline: float) -> None:
        """Makes `bound` no later than `deadline`."""
        if self.bound is None or deadline < self.bound:
            self.bound = deadline

    def expire(self, in_flight: InFlight, delivery_count_limit: int, now: float) -> list[LostLock]:
        """Ends the locks whose deadline is reached, except those of runs with a pending transition."""
        if self.bound is None or now < self.bound:
            return []
        self.bound = None
        return [
            _time_out(in_flight, run, run.lock, delivery_count_limit)
            for run in in_flight.runs
            if run.lock is not None and run.pending is None and not self._still_held(run.lock, now)
        ]

    def _still_held(self, lock: Lock, now: float) -> bool:
        if lock.deadline <= now:
            return False
        self.watch(lock.deadline)
        return True


def _time_out(in_flight: InFlight, run: Run, lock: Lock, delivery_count_limit: int) -> LostLock:
    state = after_failed_delivery(RecordEvent.LOCK_TIMEOUT, run.delivery_count, delivery_count_limit)
    run.unlock(state)
    if state is RecordState.AVAILABLE:
        in_flight.mark_available(run.first)
    else:
        in_flight.complete_count += run.size
    return LostLock(lock.member, lock.token, run.first, run.last, run.delivery_count, state)


def count_time_outs(counts: Counts, lost: Sequence[LostLock]) -> None:
    """Counts locks that timed out."""
    for lock in lost:
        size = lock.last - lock.first + 1
        counts.lost += size
        if lock.state is RecordState.ARCHIVED:
            counts.exhausted += size
