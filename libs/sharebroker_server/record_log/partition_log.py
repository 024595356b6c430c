"""The leader's log of one partition: assigns offsets, commits in groups, serves the newest from memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio.backoff import doubling
from sharebroker_server.leases.holder import LeaseLost
from sharebroker_server.leases.ownership import Ownership
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.record_log.appends import (
    Append,
    Appended,
    AppendQueue,
    Group,
    Records,
    TransactionEnd,
)
from sharebroker_server.record_log.core import producer_snapshots
from sharebroker_server.record_log.core.batch import Buffer, StoredBatch
from sharebroker_server.record_log.core.log_state import LogView
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.record_log.lifecycle import (
    MOVES,
    RETRY_AFTER,
    LogState,
    not_leader,
    storage_error,
    unavailable,
)
from sharebroker_server.record_log.offset_for_time import TimedOffset, first_since
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.recovery import load, restore
from sharebroker_server.record_log.settings import LogSettings
from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
)

_log = logging.getLogger(__name__)

_LONGEST_BACKOFF: Final = 1.0


class PartitionLog:
    """The log of a partition this process leads; make one with `open`.

    Appends that arrive while a group is on its way to the store form the next group; each is answered when
    its group is durable, and only then can its records be read. `on_append` holds callbacks, called without
    arguments after the log end has moved; they must not raise or block.

    After an append of unknown outcome the log reclaims the partition's lease (so that the lost write can no
    longer happen), reads its end again and goes on.

    `settings` may be replaced at any time; new `limits` count from the next opening on. `transactions` holds
    what is durable of producers and their transactions; another takes its place when the log is read again.
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
        self.state = LogState.OPEN
        self.on_append: list[Callable[[], None]] = []
        self._store = store
        self._lease = lease
        self._now = now
        self.transactions = Transactions()
        self._view = LogView(0, 0, (), settings.limits)
        self._queue = AppendQueue()
        self._writing: Group | None = None
        self._writer: asyncio.Task[None] | None = None

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
        """The log as the store has it; `epoch` is that of the lease of `partition`, and the leader epoch.

        `now` gives seconds of the wall epoch.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the store cannot be read, or a later version wrote it.
        """
        log = cls(partition, epoch, store, lease, settings or LogSettings(), now)
        try:
            await log._load()
        except (LogUnavailable, ValueError) as error:
            raise storage_error(error) from error
        return log

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._view.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets: the high watermark, since only durable records count."""
        return self._view.log_end_offset

    @property
    def size(self) -> int:
        """Bytes of the log's batches, up to one segment more than there are."""
        return self._view.index.size

    @property
    def last_stable_offset(self) -> int:
        """Where the earliest open transaction begins, else the log end: read_committed ends here."""
        first = self.transactions.first_unstable_offset()
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    def time_of(self, offset: int) -> int:
        """When the record was made (ms), or one soon after it; -1: not known. Asks no store."""
        return self._view.time_of(offset)

    async def append(self, data: Buffer, verified: Verified | None = None) -> Appended:
        """Append the record batches of one produce request and answer when they are durable.

        A batch that an idempotent producer sent before is answered as it was then. `verified` must be given
        for the first batch of a transaction.

        Raises:
            KafkaError: what `LogSettings.headers` and `check_batch` refuse; THROTTLING_QUOTA_EXCEEDED when
                too much waits already; KAFKA_STORAGE_ERROR when nothing was written; REQUEST_TIMED_OUT when
                it may have been; NOT_LEADER_OR_FOLLOWER when another process leads the partition.
        """
        headers = self.settings.headers(data, round(self._now() * 1000))
        return await self._enqueue(Records(data, headers, verified, _answer()))

    async def end_transaction(self, marker: Marker) -> Appended:
        """Append a marker, also where the producer has no transaction here: its epoch fences from then on.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; else as `append`.
        """
        return await self._enqueue(TransactionEnd(marker, _answer()))

    def read_hot(self, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        """Whole batches from the one that contains `offset`, as many as fit, at least one; [] at the log end.

        None when they are no longer in memory: use `read`.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER.
        """
        self._check_readable()
        return self._view.read_hot(offset, max_bytes)

    async def read(self, offset: int, max_bytes: int) -> list[StoredBatch]:
        """As `read_hot`, asking the store where need be.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        hot = self.read_hot(offset, max_bytes)
        if hot is not None:
            return hot
        try:
            batches = await self._store.read(self.partition, offset, max_bytes)
        except LogUnavailable as error:
            raise storage_error(error) from error
        self._check_readable()
        # A group may be in the store before its answer is here; it is not durable for readers until then.
        durable = [batch for batch in batches if batch.last_offset < self.log_end_offset]
        self._view.keep(durable)
        return durable

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record that is not older than `timestamp` (ms), None when all are older.

        Raises:
            KafkaError: as `read`.
        """
        start = self._view.index.first_since(timestamp)
        return None if start is None else await first_since(self, start, timestamp)

    async def offset_of_newest(self) -> TimedOffset | None:
        """The first of the records with the highest timestamp, None when there is no record.

        Raises:
            KafkaError: as `read`.
        """
        newest = self._view.index.newest()
        return None if newest is None else await first_since(self, newest.base_offset, newest.max_timestamp)

    async def apply_retention(self, now: float, consumed_up_to: int | None) -> int:
        """Drop what the topic's retention lets go and return the log start.

        `now` in seconds of the wall epoch; `consumed_up_to` is the lowest start offset (SPSO) of the topic's
        share groups, None when there is no group.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_state(LogState.OPEN)
        before = self._view.disposable_before(self.settings.retention, int(now * 1000), consumed_up_to)
        return await self._trim(before)

    async def expire_producers(self, before_ms: int) -> int:
        """Forget the producers that wrote last before then; how many. Their sequences may begin anew.

        Raises:
            KafkaError: as `delete_records`.
        """
        self._check_state(LogState.OPEN)
        writing = self._writing.draft.producers if self._writing else {}
        expired = [id_ for id_ in self.transactions.expired(before_ms) if id_ not in writing]
        if expired:
            # Before the store is asked: what is appended meanwhile reaches it later, and is kept.
            self.transactions.forget(expired)
            await self._forget(self.log_start_offset, producer_snapshots.names_of(expired))
        return len(expired)

    async def delete_records(self, before: int) -> int:
        """Move the log start up to `before` (-1: the high watermark) and return it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, NOT_LEADER_OR_FOLLOWER,
                KAFKA_STORAGE_ERROR (asking again is harmless).
        """
        self._check_state(LogState.OPEN)
        return await self._trim(self._view.deletable_before(before))

    async def recheck(self) -> None:
        """The store may have lost something: recover where it ends before this log. Raises LogUnavailable."""
        end = self.log_end_offset
        bounds = await self._store.bounds(self.partition)
        if bounds.log_end_offset < end and self.state is LogState.OPEN and self._writer is None:
            self._move(LogState.RECOVERING)
            self._writer = asyncio.create_task(self._recover_alone())

    async def close(self) -> None:
        """Stop: what waits is refused, what is on its way to the store is finished and answered."""
        recovering = self.state is LogState.RECOVERING
        self._move(LogState.CLOSED)
        writer = self._writer
        if writer is not None:
            if recovering:
                writer.cancel()
            await asyncio.wait([writer])

    async def _load(self) -> None:
        """Read what the store has; memory changes when all is here."""
        # A store that lost its newest batches must not make us give their offsets to other records.
        known_end, limits = self.log_end_offset, self.settings.limits
        loading = load(self._store, self.partition, known_end, limits, self._now_ms())
        self._view, self.transactions = await loading

    # Appending

    async def _enqueue(self, append: Append) -> Appended:
        self._check_state(LogState.OPEN)
        self._queue.add(append, self.settings.max_pending_bytes)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups())
        return await append.answer

    async def _write_groups(self) -> None:
        try:
            while self._queue:
                self._writing = self._next_group()
                await self._write(self._writing)
        finally:
            self._writer = self._writing = None

    def _next_group(self) -> Group:
        """The next appends, each at its place. Offsets count as taken only when they are durable."""
        now_ms = self._now_ms()
        stamp = now_ms if self.settings.log_append_time else None
        group = Group(self.transactions.draft(), self.log_end_offset, now_ms, stamp)
        for append in self._queue.take(self.settings.max_group_bytes):
            group.add(append)
        return group

    async def _write(self, group: Group) -> None:
        """Make one group durable and answer it."""
        if group.batches:
            await self._store_group(group)
        elif self._lease.holds(self.epoch):
            group.answer()
        else:
            group.refuse(not_leader(self.partition))

    async def _store_group(self, group: Group) -> None:
        segments = self._view.index.unsaved
        try:
            await self._store.append(self.partition, self.epoch, group.batches, segments, group.notes)
        except Exception as error:  # whatever it was, nobody may wait for ever
            if not isinstance(error, LogError):
                _log.exception("%s: the store failed in a way it does not promise", self.partition)
                error = LogOutcomeUnknown(repr(error))
            self._refuse(group, error)
            if self.state is LogState.RECOVERING:
                await self._recover()
            return
        if segments:
            self._view.index.saved(segments[-1].end_offset)
        for batch in group.batches:
            self._view.add(batch, group.now_ms)
        self.transactions.commit(group.draft)
        group.answer()
        self._wake()

    def _refuse(self, group: Group, error: LogError) -> None:
        """Answer a group that failed, and see what its failure says about this log."""
        if isinstance(error, LogFenced):
            self._move(LogState.CLOSED)
        elif isinstance(error, LogOutcomeUnknown | LogOutOfOrder):
            self._move(LogState.RECOVERING)
        group.refuse(self._refusal(error))

    def _refusal(self, error: LogError) -> KafkaError:
        if isinstance(error, LogFenced):
            return not_leader(self.partition)
        if isinstance(error, LogOutcomeUnknown):
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"The store did not answer, the records may be written: {error}"
            )
        return storage_error(error)

    async def _recover(self) -> None:
        """Claim the lease anew, so that nothing more can be written under the old epoch; then read again.

        What the store lost since it had it is written again, as far as memory still has it.
        """
        pauses, fenced = doubling(RETRY_AFTER, _LONGEST_BACKOFF), False
        while self.state is LogState.RECOVERING:
            try:
                if not fenced:
                    self.epoch, fenced = await self._lease.reclaim(), True
                await restore(self._store, self.partition, self.epoch, self._view, self.transactions)
                await self._load()
            except (LeaseLost, LogFenced):
                self._move(LogState.CLOSED)
            except (LeasesUnavailable, LogError) as error:
                fenced = fenced and not isinstance(error, LogOutcomeUnknown)
                await asyncio.sleep(next(pauses))
            else:
                self._move(LogState.OPEN)
                self._wake()

    async def _recover_alone(self) -> None:
        try:
            await self._recover()
        finally:
            self._writer = None

    async def _trim(self, before: int) -> int:
        if before > self.log_start_offset:
            await self._forget(
                before, producer_snapshots.names_of((), self.transactions.aborted_before(before))
            )
            self._view.move_log_start(before)
            self.transactions.drop_before(before)
        return self.log_start_offset

    async def _forget(self, before: int, names: Sequence[str]) -> None:
        """Have the store drop what lies before the offset, and notes."""
        epoch = self.epoch
        try:
            await self._store.trim(self.partition, epoch, before, names)
        except LogFenced as error:
            # While recovering it is our own new epoch that fences the old one.
            if self.state is LogState.OPEN and epoch == self.epoch:
                self._move(LogState.CLOSED)
            raise unavailable(self.partition, self.state) from error
        except LogError as error:
            raise storage_error(error) from error

    def _move(self, state: LogState) -> None:
        """Enter `state` if the present one allows it; only an open log keeps appends waiting."""
        if state in MOVES[self.state]:
            self.state = state
            if state is not LogState.OPEN:
                self._queue.refuse_all(unavailable(self.partition, state))

    def _wake(self) -> None:
        for callback in self.on_append:
            callback()

    def _check_state(self, *allowed: LogState) -> None:
        if self.state not in allowed:
            raise unavailable(self.partition, self.state)

    def _check_readable(self) -> None:
        self._check_state(LogState.OPEN, LogState.RECOVERING)
        if not self._lease.holds(self.epoch):
            # No write tells a process that stood still: others may have finished what it would hand out.
            raise not_leader(self.partition)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


def _answer() -> asyncio.Future[Appended]:
    return asyncio.get_running_loop().create_future()
