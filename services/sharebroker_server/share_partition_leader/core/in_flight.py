"""The records from start to end offset, as ordered runs of offsets with their locks.

The theory is in `core.share_partition`. Two parallel lists, first offsets and runs, are searched by
bisection. Most operations cost O(log n) for n runs, plus the insertions into the lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Final

from sharebroker_protocol.model import ENDED, FINISHED, AcquiredRange, FailureNote
from sharebroker_server.share_partition_leader.core.events import LostLock, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.runs import ARCHIVED, ARCHIVING, AVAILABLE, Lock, Run
from sharebroker_server.share_partition_leader.core.transitions import TRANSITIONS, RecordEvent

MAX_WIDTH: Final = 2**31 - 1
"""Most offsets from start to end offset: Kafka's delivery complete count is an int32."""

SPARE: Final = 64
"""Entries of a heap that may be out of date, beyond as many as there are valid ones."""

WAITS_AT_ONCE: Final = 1000
"""Waits that end in one step of the event loop, a few milliseconds each hundred."""


class InFlight:
    """Ordered, disjoint runs and the pointers that they define.

    While there are runs, `start` is the first offset of the first run, which is not terminal, and `end` is
    the last offset of the last run (inclusive). Without runs both are the next offset to fetch, and no offset
    is in flight; `after_end` covers both cases. Offsets between runs do not exist in the log.
    Every offset of a run is in one of five counts: `ready` to be acquired, `locked`, `waiting` for a time,
    `archiving`, or terminal (`complete_count`). `due` is a heap of (time in ms, first, last) of the runs that
    wait; an entry is skipped if its runs no longer wait. `locks_of` are the locks of each holder, with some
    that ended; `core.locks` keeps it.
    """

    __slots__ = (
        "_available_from",
        "_log_start",
        "archiving",
        "complete_count",
        "due",
        "end",
        "firsts",
        "locked",
        "locks_of",
        "ready",
        "runs",
        "start",
        "waiting",
    )

    def __init__(self, start_offset: int) -> None:
        self.start = start_offset
        self.end = start_offset
        self.firsts: list[int] = []
        self.runs: list[Run] = []
        self.complete_count = 0
        self.archiving = 0
        self.locked = 0
        self.locks_of: dict[str, dict[Lock, None]] = {}
        self.ready = 0
        self.waiting = 0
        # Below this offset, which `drop_before` received, records are archiving or have ended.
        self._log_start = start_offset
        # No ready run lies before this offset; None: there is none at all.
        self._available_from: int | None = None
        self.due: list[tuple[int, int, int]] = []

    @property
    def count(self) -> int:
        """Offsets from start to end offset, finished records and gaps included, as Kafka counts them."""
        return self.end - self.start + 1 if self.runs else 0

    @property
    def after_end(self) -> int:
        """The first offset that was never fetched."""
        return self.end + 1 if self.runs else self.end

    def room(self, settings: SharePartitionSettings) -> int:
        """The number of records that may be acquired for the first time; 0 or less: none."""
        limit = settings.max_record_locks
        if len(self.runs) >= settings.max_runs or self.end - self.start > MAX_WIDTH - limit:
            return 0
        return limit - self.locked - self.ready

    def is_full(self, settings: SharePartitionSettings) -> bool:
        """Whether no record can be acquired, whatever the log has."""
        if self.locked >= settings.max_record_locks or self.is_archiving_full(settings):
            return True
        return not self.ready and self.room(settings) <= 0

    def is_archiving_full(self, settings: SharePartitionSettings) -> bool:
        """Whether no record can be acquired until dead letters are written."""
        return self.archiving >= settings.max_archiving

    def acquirable_offset(self, settings: SharePartitionSettings) -> int | None:
        """Offset to read the log from: the first available record, else the first that was never fetched.

        None if a fetch could acquire nothing, whatever the log has.
        """
        if settings.paused or self.is_full(settings):
            return None
        available = self.first_available()
        return self.after_end if available is None else available

    def next_is_throttled(self, throttle_limit: int) -> bool:
        """Whether the next records failed so often that they are acquired alone and few at a time."""
        available = self.first_available()
        if available is None:
            return False
        batch = self.runs[self.locate(available)].batch
        of_batch = takewhile(lambda run: run.batch is batch, self.runs_from(available))
        return any(run.ready and run.delivery_count >= throttle_limit for run in of_batch)

    def sizes(self) -> tuple[int, int, int, int, int, int, int]:
        """Offsets from start to end offset; runs; offsets in runs; locked, ready, waiting, archiving ones."""
        parts = self.locked, self.ready, self.waiting, self.archiving
        return self.count, len(self.runs), sum(parts) + self.complete_count, *parts

    def split_by_run(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits first..last into parts of which an acknowledgement succeeds or fails as a whole.

        These are the part below the start offset, and the part in each run.
        """
        starts = [first]
        if first < self.start <= last:
            starts.append(self.start)
        for run in self.runs_from(first):
            if run.last >= last:
                break
            starts.append(run.last + 1)
        return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))

    # Locks

    def held(self, *, durable: bool = True) -> list[LostLock]:
        """Every lock, or those that are not durable, as they would be lost if the share-partition retired."""
        return [
            LostLock(run.lock.member, run.lock.token, run.first, run.last, run.delivery_count, run.state)
            for run in self.runs
            if run.lock is not None and (durable or not run.lock.durable)
        ]

    def waiting_ranges(self) -> list[tuple[int, int]]:
        """The first and last offsets of the runs that wait for a time."""
        return [(run.first, run.last) for run in self.runs if run.not_before_ms]

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

    def holds(self, member: str, session: str = "") -> bool:
        """Whether a member holds records, or those of a session.

        What it acknowledged counts until that is durable.
        """
        locks = self.locks_of.get(member, ())
        return any(self.is_held(lock) for lock in locks if not session or lock.session == session)

    def locked_by(self, member: str) -> Iterator[tuple[Run, Lock]]:
        """The runs that a member holds, with and without a pending transition."""
        return ((run, run.lock) for run in self.runs if run.lock is not None and run.lock.member == member)

    def is_held(self, lock: Lock) -> bool:
        """Whether runs have the lock; the next search starts at the first of them."""
        run = next(self.under(lock), None) if lock.last >= self.start else None
        if run is not None:
            lock.first = run.first
        return run is not None

    def under(self, lock: Lock) -> Iterator[Run]:
        """The runs of a lock, with and without a pending transition."""
        for run in self.runs_from(lock.first):
            if run.first > lock.last:
                return
            if run.lock is lock:
                yield run

    # Search

    def locate(self, offset: int) -> int:
        """The index of the run that contains the offset, else of the first run after it."""
        index = bisect_right(self.firsts, offset) - 1
        return index if index >= 0 and self.runs[index].last >= offset else index + 1

    def runs_from(self, offset: int) -> Iterator[Run]:
        """The runs from the offset on; unlike `islice`, takes no step for the runs before it."""
        for index in range(self.locate(offset), len(self.runs)):
            yield self.runs[index]

    def first_available(self) -> int | None:
        """The first offset that is ready, or None; the search starts where the last one ended."""
        if self._available_from is None or not self.ready:
            return None
        for index in range(self.locate(self._available_from), len(self.runs)):
            if self.runs[index].ready:
                self._available_from = self.runs[index].first
                return self._available_from
        self._available_from = None
        return None

    # Changes

    def tally(self, run: Run, size: int) -> None:
        """Counts `size` offsets of a run in its present state; discounts them if `size` is negative."""
        if run.lock is not None:
            self.locked += size
        elif run.state in FINISHED:
            self.complete_count += size
        elif run.state is ARCHIVING:
            self.archiving += size
        elif run.not_before_ms:
            self.waiting += size
        else:
            self.ready += size

    def mark_available(self, offset: int) -> None:
        """Notes that a run at this offset became ready."""
        if self._available_from is None or offset < self._available_from:
            self._available_from = offset

    def append(self, run: Run) -> None:
        """Adds a run after all others; without runs the start offset moves to it, over a gap in the log.

        The caller counts its offsets.
        """
        if not self.runs:
            self.start = run.first
        self.runs.append(run)
        self.firsts.append(run.first)
        self.end = run.last

    def fill(self, runs: list[Run]) -> None:
        """Sets the runs, which ascend, of a window without runs, and counts their offsets."""
        if not runs:
            return
        self.runs, self.firsts = runs, [run.first for run in runs]
        self.start, self.end = runs[0].first, runs[-1].last
        ready = waiting = finished = 0  # as `tally` counts, without a call per run: there may be 20,000
        due = self.due
        for run in runs:
            state = run.state
            if state is AVAILABLE:
                if run.not_before_ms:
                    waiting += run.last - run.first + 1
                    due.append((run.not_before_ms, run.first, run.last))
                else:
                    ready += run.last - run.first + 1
            elif state in FINISHED:
                finished += run.last - run.first + 1
            else:
                self.tally(run, run.size)
        self.ready, self.waiting, self.complete_count = ready, waiting, finished
        heapify(due)

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

    def coalesce_at(self, index: int) -> Run:
        """Merges a run with the run before it and all runs after it, as far as they are equal; returns it."""
        runs = self.runs
        end = index + 1
        while end < len(runs) and runs[end - 1].continues_as(runs[end]):
            end += 1
        if index and runs[index - 1].continues_as(runs[index]):
            index -= 1
        if end - index > 1:
            runs[index].last = runs[end - 1].last
            del runs[index + 1 : end]
            del self.firsts[index + 1 : end]
        return runs[index]

    def coalesce(self, changed: Iterable[Run]) -> None:
        """Merges changed runs with their equal neighbours; skips runs that were dropped or merged."""
        runs, firsts = self.runs, self.firsts
        # No run begins after `first` and up to `last`: they were dropped, or merged with the last result.
        first, last = -1, self.start - 1
        for run in changed:
            if not first < run.first <= last:
                index = bisect_left(firsts, run.first)
                if index < len(runs) and runs[index] is run:
                    merged = self.coalesce_at(index)
                    first, last = merged.first, merged.last

    def undo(self, runs: list[Run]) -> None:
        """Makes acquired runs available again; the delivery does not count, unless it is counted already."""
        for run in runs:
            run.delivery_count = run.count_before
            run.unlock(TRANSITIONS[run.state, RecordEvent.UNDO])
            self.locked -= run.size
            self.ready += run.size
            self.mark_available(run.first)
        self.coalesce(runs)

    def archive(self, first: int, last: int, event: RecordEvent, failure: FailureNote | None = None) -> None:
        """Archives what `event` may archive in first..last, in memory; the start offset advances.

        With a `failure` the records are archiving, which is not stored yet.
        """
        index = self.locate(first)
        archived: list[Run] = []
        while index < len(self.runs) and self.runs[index].first <= last:
            run = self.runs[index]
            if run.pending is None and (run.state, event) in TRANSITIONS:
                index = self.split_at(index, first, last)
                run = self.runs[index]
                self.tally(run, -run.size)
                run.unlock(TRANSITIONS[run.state, event])
                if failure is not None:
                    run.state, run.failure, run.stored = ARCHIVING, failure, False
                self.tally(run, run.size)
                archived.append(run)
            index += 1
        self.advance()
        self.coalesce(archived)

    def advance(self) -> bool:
        """Moves the start offset over leading terminal runs and drops them; returns whether it moved."""
        passed = 0
        for run in self.runs:
            if run.state not in FINISHED:
                break
            self.complete_count -= run.last - run.first + 1
            passed += 1
        self._drop(passed)
        return passed > 0

    def drop_before(self, offset: int) -> None:
        """Drops everything below an offset: the log deleted it (retention, DeleteRecords).

        Acknowledgements of these records are ignored. The new start offset is stored by the next write. But
        archiving records stay, because their dead letters are not written; then the others are archived.
        """
        if offset <= self.start or offset <= self._log_start:
            return
        self._log_start = offset
        if self.archiving and next(self.archiving_from(self.start)).first < offset:
            self._archive_before(offset)
            return
        passed = 0
        for run in self.runs:
            if run.first >= offset:
                break
            self.tally(run, run.first - min(run.last, offset - 1) - 1)
            if run.last >= offset:
                run.first = self.firsts[passed] = offset
                break
            run.unlock(ARCHIVED)
            passed += 1
        self._drop(passed)
        if not self.runs:
            self.start = self.end = offset
        self.advance()

    def _archive_before(self, offset: int) -> None:
        """Archives everything below an offset except archiving records, in memory."""
        changed: list[Run] = []
        if self.after_end < offset:
            gap = Run(self.after_end, offset - 1, ARCHIVED, 0, None)
            self.append(gap)
            self.tally(gap, gap.size)
            changed.append(gap)
        index = 0
        while index < len(self.runs) and self.runs[index].first < offset:
            run = self.runs[index]
            if run.state not in ENDED:
                self.tally(run, run.first - min(run.last, offset - 1) - 1)
                if run.last >= offset:
                    # The rest may be pending: it stays the object that its transition refers to.
                    rest, run = run, Run(run.first, offset - 1, ARCHIVED, run.delivery_count, run.batch)
                    rest.first = offset
                    self.replace(index, [run, rest])
                run.unlock(ARCHIVED)
                self.tally(run, run.size)
                changed.append(run)
            index += 1
        self.advance()
        self.coalesce(changed)

    def archiving_from(self, offset: int) -> Iterator[Run]:
        """The archiving runs from the offset on."""
        return (run for run in self.runs_from(offset) if run.state is ARCHIVING)

    # Waiting

    def postpone(self, first: int, last: int, not_before_ms: int) -> None:
        """Undoes the acquisition of locked records in first..last, which then wait for a time."""
        index = self.locate(first)
        while index < len(self.runs) and self.runs[index].first <= last:
            if self.runs[index].lock is not None:
                index = self.split_at(index, first, last)
                run = self.runs[index]
                run.delivery_count = run.count_before
                run.unlock(TRANSITIONS[run.state, RecordEvent.UNDO])
                run.not_before_ms = not_before_ms
                self.locked -= run.size
                self.waiting += run.size
                self.wait(run)
            index += 1

    def wait(self, run: Run) -> None:
        """Notes that an AVAILABLE run waits for its time."""
        heappush(self.due, (run.not_before_ms, run.first, run.last))
        if len(self.due) > 2 * len(self.runs) + SPARE:
            self._rebuild_due()

    def end_waits(self, now_ms: float) -> bool:
        """Makes the runs ready whose time is reached; returns whether there are any.

        At most WAITS_AT_ONCE of them; `due` still has the others.
        """
        ready: list[Run] = []
        while self.due and self.due[0][0] <= now_ms and len(ready) < WAITS_AT_ONCE:
            _, first, last = heappop(self.due)
            for run in self.runs_from(first):
                if run.first > last:
                    break
                if 0 < run.not_before_ms <= now_ms:
                    self.waiting -= run.size
                    self.ready += run.size
                    run.not_before_ms = 0
                    self.mark_available(run.first)
                    ready.append(run)
        self.coalesce(ready)
        return bool(ready)

    def _rebuild_due(self) -> None:
        self.due = [(run.not_before_ms, run.first, run.last) for run in self.runs if run.not_before_ms]
        heapify(self.due)

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
        rest.not_before_ms, rest.failure = run.not_before_ms, run.failure
        rest.stored, rest.counted = run.stored, run.counted
        run.last = at - 1
        self.runs.insert(index + 1, rest)
        self.firsts.insert(index + 1, at)
