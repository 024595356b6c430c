"""The leader's log of one partition.

Theory of operation
-------------------

The log of a partition is a sequence of record batches in a store (Redis). One process appends to it: the
leader, which owns the partition's lease. Every append carries the lease epoch, and the store compares it with
the lease and writes in one atomic step. An old leader is therefore fenced by the store itself, however late
its append arrives.

Group commit. At most one write is in flight. Appends that arrive in the meantime wait in `AppendQueue`, and
together form the next `Group`. A group is built on a `Draft` of the producers' state, so that each append is
checked against those before it. Offsets are assigned when the group is built and count only once the group is
durable: a group that failed leaves no trace in memory, and its offsets are assigned again. Batches that the
same producer sent behind it get a retriable error until it is sent again (`core/sequence_gaps.py`).

Offsets. Five of them describe the log:

* *log start offset*: moves up by retention and DeleteRecords, never down.
* *log end offset*: the offset of the next record.
* *records end offset*: the offset after the last batch for readers; only state of share groups follows. Only
  durable batches are added to memory, so it is also the *high watermark*, and readers never see a record that
  could be lost.
* *last stable offset*: the start of the earliest open transaction, else the records end. Readers with
  isolation level read_committed read up to it.
* *start of the hot cache*: reads from there on need no store.

Reads. `LogState` keeps the newest batches in the hot cache and the batches last read from the store, for a
consumer that catches up. A read checks the lease first: a process that was suspended cannot detect
that another broker has taken over, and would return records that others have finished.

State of share groups. Control batches with it (`core/share_control.py`) are written in the same groups. Reads
leave them out. Before the log start passes a group's newest checkpoint, `checkpoint_state` has to write
another one; without it the log start stops there.

A full store rejects records and accepts transaction markers, which are then written in groups of their own:
consumers need them to proceed, and only consumed records can be deleted.

Phases (`lifecycle.py`). OPEN accepts appends. A write of unknown outcome, or one that the store rejects as
out of order, leads to RECOVERING: the group fails, and nothing is appended until the end of the log is known.
Recovery claims the lease again, with a higher epoch, *before* it reads the end: a write that is still in
flight then carries an old epoch and is rejected. It next writes batches that memory has and the store has
lost, and reloads. A fenced write leads to CLOSED, which is final; the leadership opens another log if the
broker becomes leader again.

Recovery reads the bounds, the segment index, the producer snapshots, and the batches after the last closed
segment, at most a few megabytes. The log end never moves back below the end in memory: offsets that consumers
may have seen are not assigned to other records, even if the store lost them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable, Ownership
from sharebroker_server.record_log.appends import (
    Append,
    Appended,
    AppendQueue,
    Group,
    MarkerAppend,
    Noted,
    NotedAppend,
    RecallAppend,
    RecordsAppend,
    StateAppend,
)
from sharebroker_server.record_log.core.batch import (
    BatchHeader,
    Buffer,
    StoredBatch,
    TimedOffset,
    first_since,
)
from sharebroker_server.record_log.core.log_state import LogState, select_batches
from sharebroker_server.record_log.core.message_ids import MAX_MESSAGE_IDS
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.retention import disposable_before, oversized_before
from sharebroker_server.record_log.core.schedules import MAX_RANGES, check_not_due
from sharebroker_server.record_log.core.share_control import ControlRecord, control_records
from sharebroker_server.record_log.core.share_index import IndexedRecord
from sharebroker_server.record_log.core.snapshots import snapshot_names
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.record_log.lifecycle import (
    FIRST_BACKOFF,
    MAX_BACKOFF,
    READ_BYTES,
    TRANSITIONS,
    LogPhase,
    load,
    not_leader,
    restore,
    storage_error,
    unavailable,
)
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogFull,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
)

if TYPE_CHECKING:
    from sharebroker_server.record_log.core.notes import NotesDraft
    from sharebroker_server.record_log.record_headers import RecordHeaders

_log = structlog.get_logger()


class PartitionLog:
    """The log of a partition that this process leads; create it with `open`.

    `on_append` holds callbacks without arguments, called after the log end has moved; they must not raise or
    block. `settings` may be replaced at any time; new `limits` apply when the log is opened next.
    `transactions` is the durable state of producers and transactions; a reload replaces the object.
    `checkpoint_state` writes a checkpoint of each of these share groups.
    `scheduled` and `recalled` count records since the log was opened.
    """

    def __init__(
        self,
        partition: str,
        epoch: int,
        store: RecordStore,
        lease: Ownership,
        settings: LogSettings,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.settings = settings
        self.phase = LogPhase.OPEN
        self.on_append: list[Callable[[], None]] = []
        self.checkpoint_state: Callable[[Iterable[str]], Awaitable[object]] | None = None
        self._store = store
        self._lease = lease
        self._now = now
        self.transactions = Transactions()
        self._state = LogState(0, 0, (), settings.limits)
        self._queue = AppendQueue()
        self._writing: Group | None = None
        self._writer: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._store_is_full = False
        self.scheduled = 0
        self.recalled = 0

    @classmethod
    async def open(
        cls,
        partition: str,
        epoch: int,
        store: RecordStore,
        lease: Ownership,
        settings: LogSettings | None = None,
        now: Callable[[], float] = clock.now,
    ) -> PartitionLog:
        """Loads the log from the store; `epoch` is the lease epoch of `partition`, which is the leader epoch.

        `now` returns seconds since the Unix epoch.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR if the store cannot be read, or has data of a later version.
        """
        log = cls(partition, epoch, store, lease, settings or LogSettings(), now)
        try:
            await log._load()
        except (LogUnavailable, ValueError) as error:
            raise storage_error(error) from error
        return log

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._state.log_end_offset

    @property
    def records_end_offset(self) -> int:
        """The offset after the last batch for readers: the high watermark, since only durable ones count."""
        return self._state.records_end_offset

    @property
    def earliest_share_offset(self) -> int | None:
        """The offset of the oldest control record that the state of share groups needs; None without one."""
        return self.transactions.share.earliest()

    @property
    def leads(self) -> bool:
        """Whether this process certainly leads the partition."""
        return self.phase is not LogPhase.CLOSED and self._lease.holds(self.epoch)

    @property
    def size(self) -> int:
        """The size of the log's batches in bytes; up to one segment too high."""
        return self._state.index.size

    @property
    def last_stable_offset(self) -> int:
        """The start of the earliest open transaction, else the records end: the limit of read_committed."""
        return self.transactions.last_stable_offset(self.log_start_offset, self.records_end_offset)

    @property
    def retention_ms(self) -> int:
        """The age in ms at which records are deleted; -1 without a limit."""
        return self.settings.retention.retention_ms

    @property
    def now_ms(self) -> int:
        """The current time in ms since the Unix epoch."""
        return int(self._now() * 1000)

    async def time_of(self, offset: int) -> int:
        """Returns the timestamp (ms) of a record, or a slightly later one; -1 if unknown.

        Never reads the store.
        """
        return self._state.time_of(offset)

    async def append(
        self,
        data: Buffer,
        verified: Verified | None = None,
        headers: list[BatchHeader] | None = None,
        values: RecordHeaders | None = None,
        *,
        duplicate_offsets: bool = False,
    ) -> Appended:
        """Appends the record batches of one produce request; returns once they are durable.

        For a duplicate batch of an idempotent producer, returns the offsets of the original. The first batch
        of a transaction requires `verified`. `headers` is the result of a validation by the caller, and
        `values` what it read from the headers of the records; without it the batches are validated here.

        Records that repeat consecutive records within `message.dedup.window.ms` are not appended: the result
        has the offsets of the originals. Other duplicates are appended, and share groups skip them. With
        `duplicate_offsets` a batch without a producer id that has only duplicates, in any order, is not
        appended either: the result has the offset of each original.

        Raises:
            KafkaError: errors of `LogSettings.headers` and `check_batch`; THROTTLING_QUOTA_EXCEEDED if the
                append queue is full; KAFKA_STORAGE_ERROR if nothing was written; REQUEST_TIMED_OUT if the
                records may have been written; NOT_LEADER_OR_FOLLOWER if another process leads the partition.
        """
        if headers is None:
            values = self.settings.record_headers()
            headers = self.settings.headers(data, self.now_ms, values)
        return await self.begin_append(data, headers, values, verified, duplicate_offsets=duplicate_offsets)

    def begin_append(
        self,
        data: Buffer,
        headers: list[BatchHeader],
        values: RecordHeaders | None,
        verified: Verified | None = None,
        *,
        duplicate_offsets: bool = False,
    ) -> asyncio.Future[Appended]:
        """Queues an append of validated batches; returns its outcome, which fails as `append` does.

        Raises:
            KafkaError: the append is not queued, as `append`.
        """
        if values is None:
            return self._queued(RecordsAppend(data, headers, verified))
        ids, times = values.used_ids(), values.used_times()
        return self._queued(RecordsAppend(data, headers, verified, ids, times, duplicate_offsets))

    async def end_transaction(self, marker: Marker) -> Appended:
        """Appends a marker, even if the producer has no transaction here.

        The marker's epoch fences older epochs of the producer from then on.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; else as `append`.
        """
        return await self._queued(MarkerAppend(marker))

    async def recall(self, offset: int, now_ms: Callable[[], float]) -> None:
        """Recalls a scheduled record: share groups archive it.

        `now_ms` returns the time by which groups deliver.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE; RESOURCE_NOT_FOUND if the record is not scheduled;
                INVALID_RECORD_STATE if its time passed before the recall was durable; else as `append`.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"The log has no offset {offset}.")
        known = self.transactions.schedules.is_recalled(offset)
        await self._queued(RecallAppend(offset, now_ms))
        if not known:
            self.recalled += 1
            check_not_due(offset, self.transactions.schedules.due_of(offset), now_ms())

    async def append_noted(self, decide: Callable[[NotesDraft, int], Noted], size: int) -> Appended:
        """Appends records together with notes, in one step of the store; or notes only.

        `decide` is called once, right before the write: see `NotedAppend`. `size` is the number of bytes that
        wait until then. Without records, the result's last offset is below its base offset.

        Raises:
            KafkaError: errors of `decide` and `NotesDraft.set`; else as `append`.
        """
        return await self._queued(NotedAppend(decide, size))

    @property
    def is_behind(self) -> bool:
        """False: the offsets are those of the log itself."""
        return False

    async def refresh(self) -> None:
        """Does nothing: the offsets are those of the log itself."""

    @property
    def loses_records(self) -> bool:
        """False: readers see only records that the store keeps."""
        return False

    async def void_from(self, loaded_under: int, end: int) -> int | None:
        """Returns None: no state is void."""
        return None

    async def append_state(self, records: Sequence[IndexedRecord]) -> Appended:
        """Appends control records with the state of share groups, at least one, in one batch.

        Raises:
            KafkaError: as `append`.
        """
        return await self._queued(StateAppend(records))

    async def state_records(self) -> list[tuple[int, ControlRecord]]:
        """Returns the control records from which the state of all share groups is rebuilt, ascending.

        Those that the store lost are left out: their groups receive records again, and others continue.

        Raises:
            KafkaError: as `read`.
            ValueError: one is damaged.
        """
        self._check_readable()
        share = self.transactions.share
        needed = share.needed()
        try:
            batches = await self._store.read_at(self.partition, share.needed_batches())
        except LogUnavailable as error:
            raise storage_error(error) from error
        found = {
            offset: record
            for batch in batches
            if batch.has_share_state
            for offset, record in control_records(batch)
        }
        missing = [offset for offset in needed if offset not in found]
        if missing:
            _log.error("state of share groups is lost", partition=self.partition, offsets=missing[:10])
        return [(offset, found[offset]) for offset in needed if offset in found]

    def read_hot(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch] | None:
        """Returns whole batches from the one that contains `offset`; None if they are not in memory.

        Up to `max_bytes`, but at least one batch; [] at the end of the log. After None, use `read`. Leaves
        out state of share groups.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER.
        """
        self._check_readable()
        state = self._state
        if state.has_share_state and state.records_end_offset <= offset <= state.log_end_offset:
            return []
        batches = state.read_hot(offset, max_bytes)
        while batches and state.has_share_state:
            for_readers = _for_readers(batches, max_bytes)
            if for_readers:
                return for_readers
            batches = state.read_hot(batches[-1].last_offset + 1, max(max_bytes, READ_BYTES))
        return batches

    async def read(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch]:
        """Like `read_hot`, but reads the store if needed.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        begin, read_bytes = offset, max_bytes
        while (hot := self.read_hot(offset, max_bytes)) is None:
            try:
                batches = await self._store.read(self.partition, offset, read_bytes)
            except LogUnavailable as error:
                raise storage_error(error) from error
            self._check_readable()
            # The store may contain a group whose write has not completed; readers must not see it yet.
            durable = [batch for batch in batches if batch.last_offset < self.log_end_offset]
            self._state.cache_read(durable)
            for_readers = _for_readers(durable, max_bytes)
            if for_readers or not durable:
                return for_readers
            offset, read_bytes = durable[-1].last_offset + 1, max(max_bytes, READ_BYTES)
        if not hot and begin < self.records_end_offset and self._state.has_share_state:
            # Only state of deleted groups is there, which the index does not have.
            self._state.hide_end(begin)
        return hot

    def aborted_batches(self, batches: Sequence[StoredBatch]) -> list[tuple[int, int]]:
        """Returns the spans of the batches of aborted transactions; the batches ascend."""
        return self.transactions.aborted_batches(batches)

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Returns the first record with `timestamp` (ms) or later, None if all records are older.

        Raises:
            KafkaError: as `read`.
        """
        start = self._state.index.first_since(timestamp)
        return None if start is None else await self._first_since(start, timestamp)

    async def offset_of_newest(self) -> TimedOffset | None:
        """Returns the first record with the highest timestamp, None for an empty log.

        Raises:
            KafkaError: as `read`.
        """
        newest = self._state.index.newest()
        return None if newest is None else await self._first_since(newest.base_offset, newest.max_timestamp)

    async def _first_since(self, offset: int, timestamp: int) -> TimedOffset | None:
        """Returns the first record from `offset` on with `timestamp` or later."""
        while batches := await self.read(max(offset, self.log_start_offset), READ_BYTES):
            for batch in batches:
                if batch.max_timestamp >= timestamp and not batch.control:
                    found = first_since(batch, max(offset, self.log_start_offset), timestamp)
                    if found is not None:
                        return found
            offset = batches[-1].last_offset + 1
        return None

    async def apply_retention(self, now: float, consumed_up_to: int | None) -> int:
        """Deletes the records that the topic's retention permits to delete; returns the log start.

        `now` is in seconds since the Unix epoch; `consumed_up_to` is the lowest start offset (SPSO) of the
        topic's share groups, None without a group.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_phase(LogPhase.OPEN)
        before = disposable_before(self._state, self.settings.retention, int(now * 1000), consumed_up_to)
        # State after the last record remains: each pass would write it again to delete the former one.
        return await self._trim(min(before, self.records_end_offset))

    async def renew_state(self) -> None:
        """Checkpoints the groups whose newest checkpoint is more than `state_lag_bytes` before the log end.

        A group that is not used does not keep older records of the log.

        Raises:
            KafkaError: as `append`.
        """
        earliest, state = self.earliest_share_offset, self._state
        if earliest is None or self.checkpoint_state is None:
            return
        before = oversized_before(state.index.segments(), state.hot_cache, self.settings.state_lag_bytes)
        if earliest < before:
            await self.checkpoint_state(self.transactions.share.groups_before(before))

    async def expire_producers(self, before_ms: int) -> int:
        """Removes producers whose last write was before `before_ms`; returns their number.

        An expired producer may start with any sequence.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_phase(LogPhase.OPEN)
        writing = self._writing.draft.producers if self._writing else {}
        expired = [id_ for id_ in self.transactions.expired(before_ms) if id_ not in writing]
        if expired:
            # Remove them from memory first: an append in the meantime is written after this trim and kept.
            self.transactions.remove_producers(expired)
            await self._delete(self.log_start_offset, snapshot_names(expired))
        return len(expired)

    async def remove_notes(self, keys: Iterable[str]) -> None:
        """Removes notes, except those that an append changes at the moment.

        A note that the store still has after a failure returns when the log is opened next.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_phase(LogPhase.OPEN)
        writing = self._writing.draft.notes if self._writing else None
        notes = self.transactions.notes
        removed = [
            key
            for key in keys
            if notes.get(key) is not None and (writing is None or key not in writing.changed)
        ]
        if removed:
            notes.remove(removed)
            await self._delete(self.log_start_offset, snapshot_names(notes=removed))

    async def forget_schedules(self) -> int:
        """Removes the oldest schedules beyond the limit of those that have passed; returns their number.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_phase(LogPhase.OPEN)
        schedules = self.transactions.schedules
        surplus = schedules.surplus(self.now_ms)
        if surplus:
            schedules.remove(surplus)
            await self._delete(self.log_start_offset, snapshot_names(scheduled=surplus))
        return len(surplus)

    async def delete_records(self, before: int) -> int:
        """Moves the log start up to `before` (-1: the high watermark) and returns it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, NOT_LEADER_OR_FOLLOWER,
                KAFKA_STORAGE_ERROR (the request may be retried).
        """
        self._check_phase(LogPhase.OPEN)
        return await self._trim(self._state.deletable_before(before))

    async def recheck(self) -> None:
        """Starts recovery if the store ends before this log: it lost records. Raises LogUnavailable."""
        end = self.log_end_offset
        stored_end = await self._store.log_end(self.partition)
        if stored_end < end and self.phase is LogPhase.OPEN and self._writer is None:
            self._move(LogPhase.RECOVERING)
            self._writer = asyncio.create_task(self._write_groups())

    async def close(self) -> None:
        """Closes the log: waiting appends fail, and the write in flight completes."""
        recovering = self.phase is LogPhase.RECOVERING
        self._move(LogPhase.CLOSED)
        writer = self._writer
        if writer is not None:
            if recovering:
                writer.cancel()
            await asyncio.wait([writer])

    async def _load(self) -> None:
        """Loads the log from the store; memory changes once everything is read."""
        # If the store lost its newest batches, their offsets must not be assigned to other records.
        loading = load(self._store, self.partition, self.log_end_offset, self.settings, self.now_ms)
        self._state, self.transactions = await loading

    # Appends

    def _queued(self, append: Append) -> asyncio.Future[Appended]:
        self._check_phase(LogPhase.OPEN)
        try:
            self._queue.add(append, self.settings.max_pending_bytes)
        except KafkaError:
            self.transactions.gaps.restart()
            raise
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups())
        # Callers await it without a local variable: the error's traceback refers to their frames, and a cycle
        # would keep the records of rejected requests.
        return append.result

    async def _write_groups(self) -> None:
        """Writes groups until no append waits; recovers first after a write of unknown outcome."""
        try:
            while True:
                if self.phase is LogPhase.RECOVERING:
                    await self._recover()
                elif self._queue:
                    self._writing = self._next_group()
                    await self._write(self._writing)
                    if len(self.transactions.schedules.ranges) > MAX_RANGES:
                        await self._remove_surplus()
                    if self.transactions.share.deleted:
                        await self._remove_deleted_groups()
                else:
                    return
        finally:
            self._writer = self._writing = None

    def _next_group(self) -> Group:
        """Returns a group of the next appends; their offsets count only once the group is durable."""
        now_ms = self.now_ms
        stamp = now_ms if self.settings.log_append_time else None
        draft = self.transactions.draft(self.settings.dedup_window_ms, now_ms)
        group = Group(draft, self.log_end_offset, now_ms, stamp, self.records_end_offset)
        for append in self._queue.pop_group(self.settings.max_group_bytes, separate=self._store_is_full):
            group.add(append)
        return group

    async def _remove_surplus(self) -> None:
        """Removes schedules between two writes: the retention task runs too seldom for short delays."""
        try:
            await self.forget_schedules()
        except KafkaError as error:
            _log.info("removal of schedules postponed", partition=self.partition, reason=str(error))

    async def _remove_deleted_groups(self) -> None:
        """Removes deleted groups from the index, between two writes, so that none of them adds to it."""
        share = self.transactions.share
        try:
            await self._delete(self.log_start_offset, share.remove(share.deleted))
        except KafkaError as error:  # they are removed after the next load
            if isinstance(error.__cause__, LogOutcomeUnknown):
                # A removal that arrives late must be fenced: a group may be created again.
                self._move(LogPhase.RECOVERING)
            _log.info("removal of deleted groups postponed", partition=self.partition, reason=str(error))

    async def _write(self, group: Group) -> None:
        """Makes one group durable and resolves its appends."""
        if group.changes_store:
            await self._store_group(group)
        elif self._lease.holds(self.epoch):
            group.complete()
        else:
            group.fail(not_leader(self.partition))

    async def _store_group(self, group: Group) -> None:
        segments = self._state.index.unsaved
        try:
            await self._store.append(
                self.partition,
                self.epoch,
                group.batches,
                segments,
                group.snapshots,
                beyond_limit=group.beyond_limit,
            )
        except Exception as error:  # whatever the error is, no caller may wait indefinitely
            if not isinstance(error, LogError):
                _log.exception("record store raised an unexpected error", partition=self.partition)
                error = LogOutcomeUnknown(repr(error))
            self._fail(group, error)
            return
        self._store_is_full = self._store_is_full and group.beyond_limit
        if segments:
            self._state.index.saved(segments[-1].end_offset)
        for batch in group.batches:
            self._state.add(batch, group.now_ms)
        self.transactions.commit(group.draft)
        if group.draft.scheduled:
            self.scheduled += sum(last - first + 1 for first, last, _ in group.draft.scheduled)
        if self.transactions.ids.first_overflow():
            _log.warning(
                "message ids removed before the end of their window",
                partition=self.partition,
                limit=MAX_MESSAGE_IDS,
                window_ms=self.settings.dedup_window_ms,
            )
        group.complete()
        if not group.has_only_state:
            self._notify()

    def _fail(self, group: Group, error: LogError) -> None:
        """Fails a group, and changes the phase according to the error."""
        if isinstance(error, LogFenced):
            self._move(LogPhase.CLOSED)
        elif isinstance(error, LogOutcomeUnknown | LogOutOfOrder):
            self._move(LogPhase.RECOVERING)
        self.transactions.gaps.restart()
        self._store_is_full = isinstance(error, LogFull)
        group.fail(self._error_of(error))

    def _error_of(self, error: LogError) -> KafkaError:
        if isinstance(error, LogFenced):
            return not_leader(self.partition)
        if isinstance(error, LogOutcomeUnknown):
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The store did not respond; the records may have been written: {error}",
            )
        return storage_error(error)

    async def _recover(self) -> None:
        """Claims the lease again, so that no write with the old epoch can succeed; then reloads.

        Batches that the store lost are written again, as far as memory has them.
        """
        pauses, fenced = doubling(FIRST_BACKOFF, MAX_BACKOFF), False
        share, lost = self.transactions.share, False
        while self.phase is LogPhase.RECOVERING:
            try:
                if not fenced:
                    self.epoch, fenced = await self._lease.reclaim(), True
                end = await restore(self._store, self.partition, self.epoch, self._state, self.transactions)
                lost = lost or end <= share.newest
                await self._load()
            except (LeaseLost, LogFenced):
                self._move(LogPhase.CLOSED)
            except (LeasesUnavailable, LogError) as error:
                fenced = fenced and not isinstance(error, LogOutcomeUnknown)
                await asyncio.sleep(next(pauses))
            else:
                self._move(LogPhase.OPEN)
                self._notify()
                if lost:
                    self._renewing = asyncio.create_task(self._renew_lost([*share.checkpoint_offsets()]))

    async def _renew_lost(self, groups: Sequence[str]) -> None:
        """Checkpoints groups after the store lost some of their state; memory has it."""
        try:
            if self.checkpoint_state is not None:
                await self.checkpoint_state(groups)
        except KafkaError as error:
            _log.warning("state of share groups may be lost", partition=self.partition, reason=str(error))

    async def _trim(self, before: int) -> int:
        if before > self.log_start_offset:
            before = await self._without_state(before)
        if before > self.log_start_offset:
            ended, scheduled = self.transactions.ended_before(before)
            recalled = self.transactions.schedules.recalled_in(0, before)
            notes = self.transactions.notes.attached_before(before)
            await self._delete(before, snapshot_names((), ended, scheduled, recalled, notes))
            self._state.move_log_start(before)
            self.transactions.drop_before(before)
        return self.log_start_offset

    async def _without_state(self, before: int) -> int:
        """Returns `before`, or the lowest newest checkpoint of a group if it stays below `before`."""
        share = self.transactions.share
        earliest = share.earliest()
        if earliest is not None and earliest < before and self.checkpoint_state is not None:
            try:
                await self.checkpoint_state(share.groups_before(before))
            except KafkaError as error:
                raise storage_error(error.message) from error
            earliest = share.earliest()
        return before if earliest is None else min(before, earliest)

    async def _delete(self, before: int, removed_snapshots: Sequence[str]) -> None:
        """Deletes from the store the batches before the offset, and producer snapshots."""
        epoch = self.epoch
        try:
            await self._store.trim(self.partition, epoch, before, removed_snapshots)
        except LogFenced as error:
            # During recovery our own new epoch fences the old one.
            if self.phase is LogPhase.OPEN and epoch == self.epoch:
                self._move(LogPhase.CLOSED)
            raise unavailable(self.partition, self.phase) from error
        except LogError as error:
            raise storage_error(error) from error

    def _move(self, phase: LogPhase) -> None:
        """Enters `phase` if the table permits it; only an open log keeps appends waiting."""
        if phase in TRANSITIONS[self.phase]:
            self.phase = phase
            if phase is not LogPhase.OPEN:
                self._queue.fail_all(unavailable(self.partition, phase))

    def _notify(self) -> None:
        for callback in self.on_append:
            callback()

    def _check_phase(self, *allowed: LogPhase) -> None:
        if self.phase not in allowed:
            raise unavailable(self.partition, self.phase)

    def _check_readable(self) -> None:
        self._check_phase(LogPhase.OPEN, LogPhase.RECOVERING)
        if not self._lease.holds(self.epoch):
            # A process that was suspended has not been fenced yet: it could return records that other members
            # have finished.
            raise not_leader(self.partition)


def _for_readers(batches: Sequence[StoredBatch], max_bytes: int) -> list[StoredBatch]:
    """Returns the batches without those that have state of share groups: up to `max_bytes`, at least one."""
    return select_batches([batch for batch in batches if not batch.has_share_state], 0, max_bytes)
