"""The leader's log of one partition: assigns offsets, commits in groups, serves the newest from memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from libs import clock
from libs.leases.holder import LeaseLost
from libs.leases.ownership import Ownership
from libs.leases.port import LeasesUnavailable
from libs.record_log.core.batch import BatchHeader, Buffer, StoredBatch, assign, parse_headers
from libs.record_log.core.view import LogView
from libs.record_log.lookup import first_offset_since
from libs.record_log.port import RecordStore
from libs.record_log.settings import LogSettings
from libs.stream_log.port import (
    LogError,
    LogFenced,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
)
from sharebroker.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

T = TypeVar("T")

_READ_BYTES: Final = 1 << 20
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 1.0


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a produce request went; `log_append_time` in ms, -1 unless the topic uses LogAppendTime."""

    base_offset: int
    last_offset: int
    log_append_time: int


class LogState(Enum):
    """OPEN takes appends; RECOVERING only reads, until the lease is claimed again; CLOSED nothing."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


_MOVES: Final = {
    LogState.OPEN: frozenset({LogState.RECOVERING, LogState.CLOSED}),
    LogState.RECOVERING: frozenset({LogState.OPEN, LogState.CLOSED}),
    LogState.CLOSED: frozenset[LogState](),
}


@dataclass(slots=True)
class _Append:
    data: Buffer
    headers: list[BatchHeader]
    answer: asyncio.Future[Appended]


class PartitionLog:
    """The log of a partition this process leads; make one with `open`.

    Appends that arrive while a group is on its way to the store form the next group; each is answered when
    its group is durable, and only then can its records be read. `on_append` holds callbacks, called without
    arguments after the log end has moved; they must not raise or block.

    After an append of unknown outcome the log reclaims the partition's lease (so that the lost write can no
    longer happen), reads its end again and goes on.

    `settings` may be replaced at any time; new `limits` count from the next opening on.
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
        self._view = LogView(0, 0, (), settings.limits)
        self._pending: deque[_Append] = deque()
        self._pending_bytes = 0
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
            KafkaError: KAFKA_STORAGE_ERROR when the store cannot be read.
        """
        log = cls(partition, epoch, store, lease, settings or LogSettings(), now)
        try:
            await log._load()
        except LogUnavailable as error:
            raise _storage_error(error) from error
        return log

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._view.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets: the high watermark, since only durable records count."""
        return self._view.log_end_offset

    async def append(self, data: Buffer) -> Appended:
        """Append the record batches of one produce request and answer when they are durable.

        Raises:
            KafkaError: what `parse_headers` refuses; THROTTLING_QUOTA_EXCEEDED when too much waits already;
                KAFKA_STORAGE_ERROR when nothing was written; REQUEST_TIMED_OUT when it may have been;
                NOT_LEADER_OR_FOLLOWER when another process leads the partition.
        """
        headers = parse_headers(data, self.settings.max_message_bytes)
        self._check_state(LogState.OPEN)
        if self._pending and self._pending_bytes + len(data) > self.settings.max_pending_bytes:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{self._pending_bytes} bytes wait to be appended to {self.partition}.",
                retry_after=_FIRST_BACKOFF,
            )
        append = _Append(data, headers, asyncio.get_running_loop().create_future())
        self._pending.append(append)
        self._pending_bytes += len(data)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups())
        return await append.answer

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
            raise _storage_error(error) from error
        self._check_readable()
        # A group may be in the store before its answer is here; it is not durable for readers until then.
        durable = [batch for batch in batches if batch.last_offset < self.log_end_offset]
        self._view.keep(durable)
        return durable

    async def offset_for_timestamp(self, timestamp: int) -> int | None:
        """The earliest offset whose record is not older than `timestamp` (ms), None when all are older.

        Raises:
            KafkaError: as `read`.
        """
        offset = self._view.index.first_since(timestamp)
        while offset is not None:
            offset = max(offset, self.log_start_offset)
            batches = await self.read(offset, _READ_BYTES)
            for batch in batches:
                if batch.max_timestamp >= timestamp:
                    return max(first_offset_since(batch, timestamp), self.log_start_offset)
            offset = batches[-1].last_offset + 1 if batches else None
        return None

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

    async def delete_records(self, before: int) -> int:
        """Move the log start up to `before` (-1: the high watermark) and return it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, NOT_LEADER_OR_FOLLOWER,
                KAFKA_STORAGE_ERROR (asking again is harmless).
        """
        self._check_state(LogState.OPEN)
        return await self._trim(self._view.deletable_before(before))

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
        """Read bounds, index and the batches no index row covers; memory changes only when all are here."""
        bounds = await self._store.bounds(self.partition)
        segments = await self._store.segments(self.partition)
        # A store that lost its newest batches must not make us give their offsets to other records.
        log_end = max(bounds.log_end_offset, self.log_end_offset)
        view = LogView(bounds.log_start_offset, log_end, segments, self.settings.limits)
        now_ms = int(self._now() * 1000)
        offset = view.unread_from
        while offset < bounds.log_end_offset and (
            batches := await self._store.read(self.partition, offset, _READ_BYTES)
        ):
            for batch in batches:
                view.add(batch, now_ms)
            offset = batches[-1].last_offset + 1
        self._view = view

    async def _write_groups(self) -> None:
        try:
            while self._pending:
                await self._write(self._next_group())
        finally:
            self._writer = None

    def _next_group(self) -> list[_Append]:
        group, size = [], 0
        while self._pending and size < self.settings.max_group_bytes:
            append = self._pending.popleft()
            size += len(append.data)
            group.append(append)
        self._pending_bytes -= size
        return group

    async def _write(self, group: list[_Append]) -> None:
        """Make one group durable and answer it. Offsets are taken only when it is."""
        now_ms = int(self._now() * 1000)
        batches, answers = self._assign(group, now_ms)
        segments = self._view.index.unsaved
        try:
            await self._store.append(self.partition, self.epoch, batches, segments)
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
        for batch in batches:
            self._view.add(batch, now_ms)
        for append, answer in zip(group, answers, strict=True):
            if not append.answer.done():
                append.answer.set_result(answer)
        self._wake()

    def _assign(self, group: list[_Append], now_ms: int) -> tuple[list[StoredBatch], list[Appended]]:
        stamp = now_ms if self.settings.log_append_time else None
        offset = self.log_end_offset
        batches: list[StoredBatch] = []
        answers = []
        for append in group:
            batches += assign(append.data, append.headers, offset, self.epoch, stamp)
            last = batches[-1].last_offset
            answers.append(Appended(offset, last, -1 if stamp is None else stamp))
            offset = last + 1
        return batches, answers

    def _refuse(self, group: Sequence[_Append], error: LogError) -> None:
        """Answer a group that failed, and see what its failure says about this log."""
        if isinstance(error, LogFenced):
            self._move(LogState.CLOSED)
        elif isinstance(error, LogOutcomeUnknown | LogOutOfOrder):
            self._move(LogState.RECOVERING)
        for append in group:
            _answer(append, self._refusal(error))

    def _refusal(self, error: LogError) -> KafkaError:
        if isinstance(error, LogFenced):
            return self._not_leader()
        if isinstance(error, LogOutcomeUnknown):
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"The store did not answer, the records may be written: {error}"
            )
        return _storage_error(error)

    async def _recover(self) -> None:
        """Claim the lease anew, so that nothing more can be written under the old epoch; then read again."""
        try:
            self.epoch = await _persistently(self._lease.reclaim)
        except LeaseLost:
            self._move(LogState.CLOSED)
            return
        await _persistently(self._load)
        self._move(LogState.OPEN)
        self._wake()

    async def _trim(self, before: int) -> int:
        epoch = self.epoch
        if before > self.log_start_offset:
            try:
                await self._store.trim(self.partition, epoch, before)
            except LogFenced as error:
                # While recovering it is our own new epoch that fences the old one.
                if self.state is LogState.OPEN and epoch == self.epoch:
                    self._move(LogState.CLOSED)
                raise self._unavailable() from error
            except LogError as error:
                raise _storage_error(error) from error
            self._view.move_log_start(before)
        return self.log_start_offset

    def _move(self, state: LogState) -> None:
        """Enter `state` if the present one allows it; only an open log keeps appends waiting."""
        if state in _MOVES[self.state]:
            self.state = state
            if state is not LogState.OPEN:
                self._refuse_pending()

    def _refuse_pending(self) -> None:
        """Refuse the appends that wait; none of them has been sent."""
        pending, self._pending = self._pending, deque()
        self._pending_bytes = 0
        for append in pending:
            _answer(append, self._unavailable())

    def _wake(self) -> None:
        for callback in self.on_append:
            callback()

    def _check_state(self, *allowed: LogState) -> None:
        if self.state not in allowed:
            raise self._unavailable()

    def _check_readable(self) -> None:
        self._check_state(LogState.OPEN, LogState.RECOVERING)
        if not self._lease.holds(self.epoch):
            # No write tells a process that stood still: others may have finished what it would hand out.
            raise self._not_leader()

    def _unavailable(self) -> KafkaError:
        if self.state is LogState.CLOSED:
            return self._not_leader()
        return _storage_error("an append's outcome is being found out")

    def _not_leader(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This process does not lead {self.partition} any more."
        )


def _storage_error(reason: object) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"The store refused: {reason}", retry_after=_FIRST_BACKOFF
    )


async def _persistently(step: Callable[[], Awaitable[T]]) -> T:
    """Try a step of the recovery until the store answers."""
    backoff = _FIRST_BACKOFF
    while True:
        try:
            return await step()
        except (LeasesUnavailable, LogUnavailable):
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _LONGEST_BACKOFF)


def _answer(append: _Append, error: KafkaError) -> None:
    if not append.answer.done():
        append.answer.set_exception(error)
