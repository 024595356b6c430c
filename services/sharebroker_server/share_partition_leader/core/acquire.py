"""Selects the records that a member acquires out of those read from the log, and how many at once.

Reference: SharePartition.acquire of Kafka 4.3. The caller has read the log at the next fetch offset. Records
in flight are redelivered first, batch by batch; then records that were never fetched are added at the end.

A batch in which a record reached `throttle_limit` deliveries is isolated (KIP-1222; see
`core.share_partition`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from sharebroker_protocol.model import (
    AcquiredRange,
    AcquireMode,
    Disposition,
    FailedRecords,
    FailureNote,
    RecordState,
)
from sharebroker_server.offset_spans import joined
from sharebroker_server.share_partition_leader.core.events import (
    Acquire,
    AcquireRequest,
    Counts,
    LogBatch,
    Scheduled,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.locks import Locks
from sharebroker_server.share_partition_leader.core.runs import (
    ACQUIRED,
    Batch,
    Run,
    Transition,
    Unit,
    state_batch,
)
from sharebroker_server.share_partition_leader.core.state_writes import WriteQueue
from sharebroker_server.share_partition_leader.core.transitions import TRANSITIONS, RecordEvent, after

_RECORD_LIMIT = AcquireMode.RECORD_LIMIT


class Acquisition:
    """One acquisition."""

    def __init__(
        self,
        in_flight: InFlight,
        settings: SharePartitionSettings,
        request: AcquireRequest,
        fetch_offset: int,
        log_batches: Sequence[LogBatch],
        writes: WriteQueue,
    ) -> None:
        self._in_flight = in_flight
        self._writes = writes
        self._settings = settings
        self._request = request
        self._log = log_batches
        self._acquired: list[AcquiredRange] = []
        self.count = 0
        base = log_batches[0][0]
        # The log no longer has the offsets between the fetch offset and the first batch.
        if base > fetch_offset:
            in_flight.archive(fetch_offset, base - 1, RecordEvent.COMPACT)
        self._base = base if base > in_flight.start else in_flight.start
        self._last = log_batches[-1][1]
        # The most records to lock in this call, which is strict, and to acquire, which may be exceeded up to
        # the end of a record batch.
        full = in_flight.is_archiving_full(settings)
        self._most = 0 if full else settings.max_record_locks - in_flight.locked
        self._room = request.max_records if request.max_records < self._most else self._most

    def run(self, locks: Locks, now: float) -> list[AcquiredRange]:
        """Acquires records; ranges ascend, each within one batch."""
        if self._room <= 0 or self._last < self._base:
            return []
        request = self._request
        deadline = now + (request.lock or self._settings.lock_duration)
        self._lock = locks.issue(request.member, deadline, request.session)
        in_flight = self._in_flight
        if in_flight.runs:
            self._walk()
        redelivered = self.count
        after_end = in_flight.after_end
        if self._last >= after_end and self._has_room_for_new():
            first = self._base if self._base > after_end else after_end
            if self._log[0][1] < first:
                first = self._after_gap(first)
            last = self._before_deferred(first, self._last)
            if first <= last:
                for run in self._new_runs(first, last):
                    in_flight.append(run)
        in_flight.locked += self.count
        in_flight.ready -= redelivered
        acquired = self._acquired
        if acquired:
            self._lock.first, self._lock.last = acquired[0].first, acquired[-1].last
            locks.watch(self._lock)
        return acquired

    def _has_room_for_new(self) -> bool:
        """Limits the call to the room for records that were never fetched; returns whether there is any."""
        self._most = self.count + self._in_flight.room(self._settings)
        if self._most < self._room:
            self._room = self._most
        return self.count < self._room

    def _walk(self) -> None:
        """Acquires available records in flight, in order."""
        runs = self._in_flight.runs
        index = self._in_flight.locate(self._base)
        while self.count < self._room and index < len(runs) and runs[index].first <= self._last:
            run = runs[index]
            if not run.ready:
                index += 1
            elif run.batch is None:
                index = self._fill(index)
            else:
                index = self._redeliver(index, run.batch)

    def _redeliver(self, index: int, batch: Unit) -> int:
        """Acquires from a batch in flight; returns the index after it."""
        worst = self._highest_delivery_count(index, batch)
        if worst < self._settings.throttle_limit:
            return self._acquire_batch(index, batch, self._quota())
        # A suspected poison record is delivered without records acquired before or after it.
        if not self.count:
            self._acquire_isolated(index, batch)
        self._room = 0
        return index

    def _quota(self) -> int:
        """The most offsets to acquire from a batch in flight; only a strict limit cuts a batch."""
        limit = self._room if self._request.mode is _RECORD_LIMIT else self._most
        return limit - self.count

    def _inside(self, index: int, batch: Unit) -> bool:
        """Whether the run at the index exists, belongs to the batch, and starts in what was read."""
        runs = self._in_flight.runs
        return index < len(runs) and runs[index].batch is batch and runs[index].first <= self._last

    def _highest_delivery_count(self, index: int, batch: Unit) -> int:
        runs, worst = self._in_flight.runs, 0
        while self._inside(index, batch):
            if runs[index].ready:
                worst = max(worst, runs[index].delivery_count)
            index += 1
        return worst

    def _acquire_isolated(self, index: int, batch: Unit) -> None:
        """Acquires half as many records after each failure; a last delivery contains only one record."""
        settings, runs = self._settings, self._in_flight.runs
        quota = self._quota()
        throttled = False
        while self._inside(index, batch):
            run = runs[index]
            if run.ready:
                failures = run.delivery_count - settings.throttle_limit
                if run.delivery_count >= settings.delivery_count_limit - 1 > 1:
                    quota = 1
                elif failures >= 0 and not throttled:
                    quota = min(quota, max(1, (batch.last - batch.first + 1) >> (failures + 1)))
                    throttled = True
                if self.count >= quota:
                    return
                index = self._acquire_run(index, quota - self.count)
            index += 1

    def _acquire_batch(self, index: int, batch: Unit, quota: int) -> int:
        runs = self._in_flight.runs
        start, end = index, self.count + quota
        while self._inside(index, batch):
            if runs[index].ready and self.count < end:
                index = self._acquire_run(index, end - self.count)
            index += 1
        return index if index - start == 1 else self._coalesce(start, index)

    def _coalesce(self, start: int, end: int) -> int:
        """Merges runs that an acquisition made equal, such as records that were released one by one."""
        runs = self._in_flight.runs
        joined = [runs[start]]
        for run in runs[start + 1 : end]:
            if joined[-1].continues_as(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        runs[start:end] = joined
        self._in_flight.firsts[start:end] = [run.first for run in joined]
        return start + len(joined)

    def _acquire_run(self, index: int, quota: int) -> int:
        """Acquires at most `quota` offsets of an AVAILABLE run in what was read; returns its index."""
        first = max(self._in_flight.runs[index].first, self._base)
        index = self._in_flight.split_at(index, first, min(self._last, first + quota - 1))
        run = self._in_flight.runs[index]
        run.state = TRANSITIONS[run.state, RecordEvent.ACQUIRE]
        run.delivery_count += 1
        run.lock = self._lock
        self._add_range(run)
        return index

    def _add_range(self, run: Run) -> None:
        """Adds a run to the result; extends the last range if the run continues it in the same batch."""
        previous = self._acquired[-1] if self._acquired else None
        first = run.first
        if (
            previous is not None
            and run.batch is not None
            and previous.last + 1 == first > run.batch.first
            and previous.delivery_count == run.delivery_count
        ):
            self._acquired.pop()
            first = previous.first
        self._acquired.append(
            AcquiredRange(first, run.last, run.delivery_count, self._lock.token, self._lock.deadline)
        )
        self.count += run.last - run.first + 1

    def _fill(self, index: int) -> int:
        """Acquires from a gap in the loaded state, as new records; returns the index after it."""
        gap = self._in_flight.runs[index]
        units = self._new_runs(max(gap.first, self._base), min(gap.last, self._last))
        index = self._in_flight.split_at(index, units[0].first, units[-1].last)
        self._in_flight.replace(index, units)
        return index + len(units)

    def _after_gap(self, first: int) -> int:
        """The first offset of the log from an offset on, after a gap in the log if one comes first."""
        return max(first, next(base for base, last in self._log if last >= first))

    def _before_deferred(self, first: int, last: int) -> int:
        """Returns the last offset out of first..last before a record batch that is deferred.

        The strict limit would cut that batch, and each part would be sent with the bytes of the whole batch.
        """
        limit = first + self._most - self.count - 1
        if self._request.mode is _RECORD_LIMIT or last <= limit:
            return last
        base, end = self._log[bisect_right(self._log, limit, key=itemgetter(0)) - 1]
        soft = first + self._room - self.count - 1
        if base > soft or end <= limit or not self._defers(end - limit):
            return last
        return base - 1

    def _defers(self, missing: int) -> bool:
        """Whether a record batch waits, since state writes will make room for its `missing` records."""
        deferred = self._writes.will_end(missing)
        self._writes.awaited |= deferred
        return deferred

    def _new_runs(self, first: int, last: int) -> list[Run]:
        """Creates runs of records at their first delivery, out of first..last."""
        wanted = self._room - self.count
        if wanted <= last - first:
            last = min(last, self._batch_end(first, first + wanted - 1))
        runs = []
        for unit in self._units(first, last):
            run = Run(unit.first, unit.last, ACQUIRED, 1, unit, self._lock)
            runs.append(run)
            self._add_range(run)
        return runs

    def _batch_end(self, first: int, offset: int) -> int:
        """The last offset of the record batch with the offset; only a strict limit cuts a record batch."""
        if self._request.mode is _RECORD_LIMIT:
            return offset
        index = bisect_right(self._log, offset, key=itemgetter(0)) - 1
        end = self._log[index][1]
        return min(end, first + self._most - self.count - 1) if end >= first else offset

    def _units(self, first: int, last: int) -> list[Batch]:
        """Splits first..last into units of at least `batch_size`, at boundaries of record batches."""
        size = self._request.batch_size if self._request.batch_size > 0 else 1
        units = []
        if last - first >= size and self._request.mode is not _RECORD_LIMIT:
            for base, _ in self._log:
                if base > last:
                    break
                if base - first >= size:
                    units.append(Batch(first, base - 1))
                    first = base
        units.append(Batch(first, last))
        return units


def archive_hidden(
    in_flight: InFlight,
    acquired: Sequence[AcquiredRange],
    hidden: Sequence[LogBatch],
    counts: Counts,
) -> list[AcquiredRange]:
    """Archives and counts what was just acquired of hidden batches, ascending; returns the rest.

    The change is in memory and is written later (see `core.state_writes`, kind 2).
    """
    kept, withheld = divide(acquired, joined(hidden))
    for first, last, _ in withheld:
        in_flight.archive(first, last, RecordEvent.ABORT)
        counts.aborted += last - first + 1
    return kept


def expire(
    in_flight: InFlight,
    acquired: Sequence[AcquiredRange],
    expired: Sequence[LogBatch],
    counts: Counts,
    settings: SharePartitionSettings,
    time_ms: float,
) -> tuple[list[AcquiredRange], Transition]:
    """Archives, or makes archiving, and counts what was just acquired of expired batches, in memory.

    Returns the rest, and the transition that stores the change; `time_ms` is the time now. It has no runs,
    because they have changed already. It is empty if nothing has to be stored but the start offset.
    """
    letters = settings.dead_letters
    failure = FailureNote(Disposition.EXPIRED, int(time_ms)) if letters else None
    state = after(RecordState.ACQUIRED, RecordEvent.EXPIRE, dead_letters=letters)
    listed = letters or bool(settings.longest_journal)
    transition, spans = Transition(), joined(expired)
    failed = transition.failed = []
    kept: list[AcquiredRange] = []
    for piece in acquired:
        outside, inside = divide((piece,), spans)
        kept += outside
        for first, last, _ in inside:
            if listed:
                count = piece.delivery_count
                transition.batches.append(state_batch(first, last, state, count, 0, failure))
                failed.append(FailedRecords(first, last, Disposition.EXPIRED, count - 1))
            in_flight.archive(first, last, RecordEvent.EXPIRE, failure)
            counts.expired += last - first + 1
    transition.describe_failures(time_ms)
    return kept, transition


def divide(
    acquired: Sequence[AcquiredRange], spans: Sequence[LogBatch] | Sequence[Scheduled]
) -> tuple[list[AcquiredRange], list[tuple[int, int, int]]]:
    """Divides acquired ranges into the parts outside and inside of spans, which ascend without overlap.

    Of each part inside: first and last offset, and the index of its span.
    """
    kept, inside = [], []
    for piece in acquired:
        first = piece.first
        for index in range(bisect_left(spans, first, key=itemgetter(1)), len(spans)):
            start, end = spans[index][:2]
            if start > piece.last:
                break
            inside.append((max(start, first), min(end, piece.last), index))
            if start > first:
                kept.append(piece._replace(first=first, last=start - 1))
            first = end + 1
        if first <= piece.last:
            kept.append(piece._replace(first=first))
    return kept, inside


def withheld_prefix(event: Acquire, scheduled: Sequence[Scheduled]) -> Sequence[LogBatch]:
    """Returns the first batches of those read, if no record of them is delivered now.

    `scheduled` are the records that wait.
    """
    batches = event.log_batches
    hidden = hidden_prefix(batches, event.hidden) or hidden_prefix(batches, event.expired)
    return hidden or (leading(scheduled, event.offset, batches) if scheduled else ())


def unlimited(
    in_flight: InFlight,
    request: AcquireRequest,
    settings: SharePartitionSettings,
    batches: Sequence[LogBatch],
) -> tuple[AcquireRequest, SharePartitionSettings]:
    """Returns the request and settings that acquire all of the batches, whatever the limits of records.

    The caller continues to read after them.
    """
    size = batches[-1][1] - batches[0][0] + 1
    request = replace(request, max_records=size, mode=AcquireMode.BATCH_OPTIMIZED)
    return request, replace(settings, max_record_locks=in_flight.locked + in_flight.ready + size)


def hidden_prefix(log_batches: Sequence[LogBatch], hidden: Sequence[LogBatch]) -> Sequence[LogBatch]:
    """Returns the batches, up to the first one that is not hidden."""
    number = 0
    for batch, span in zip(log_batches, hidden, strict=False):
        if batch != span:
            break
        number += 1
    return log_batches[:number]


def leading(
    scheduled: Sequence[Scheduled], offset: int, log_batches: Sequence[LogBatch]
) -> Sequence[LogBatch]:
    """Returns the batches, up to the first record that does not wait, if the next record to acquire waits."""
    start = end = max(offset, log_batches[0][0])
    for first, last, _ in scheduled:
        if first <= end <= last:
            end = last + 1
    if end == start:
        return ()
    return [
        (max(base, start), min(last, end - 1)) for base, last in log_batches if base < end and last >= start
    ]


def postpone(
    in_flight: InFlight, acquired: Sequence[AcquiredRange], scheduled: Sequence[Scheduled], counts: Counts
) -> list[AcquiredRange]:
    """Lets scheduled records wait that were just acquired, in memory; returns the rest.

    Nothing is written: the times are read with the records.
    """
    kept, withheld = divide(acquired, scheduled)
    for first, last, index in withheld:
        in_flight.postpone(first, last, scheduled[index][2])
        counts.acquired -= last - first + 1
    return kept


def count_acquired(counts: Counts, acquired: Sequence[AcquiredRange]) -> None:
    """Counts acquired records."""
    for first, last, delivery_count, _, _ in acquired:
        size = last - first + 1
        counts.acquired += size
        if delivery_count > 1:
            counts.redelivered += size
