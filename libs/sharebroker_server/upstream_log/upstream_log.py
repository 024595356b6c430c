"""The log of one partition that another cluster owns, as the leader of its share-partitions reads it.

Theory of operation
-------------------

*Growth.* One incremental fetch session with each broker (`sessions.py`) has all partitions of which readers
want more. Their records arrive in chunks, which memory keeps (`core/chunks.py`). The next fetch starts at
`next_offset`. It reads ahead of the readers by up to `tail_bytes`; then the log is left out of the session
until they follow. Meanwhile the session asks for the bounds from time to time: readers may wait at the end.
A reader that is ahead of the session takes it along.

*Other offsets.* A reader that is behind, or whose chunk was dropped, fetches a chunk of its own, without
session and without waiting. Readers of the same offset share one fetch.

*Isolation.* Sessions fetch with read_uncommitted, whose responses have the last stable offset but do not list
aborted transactions. A reader with read_committed takes the chunks without transactions. Otherwise it
fetches with read_committed, and these chunks are kept apart.

*Truncation.* Before anything is read from a new leader, `core/epochs.py` compares its log with what was read.
The notes are stored, under the lease, before a reader sees the first record of another leader epoch. A
response that arrives after a comparison but was requested before it is dropped. If readers have seen records
that are gone, the lease is claimed again: the higher epoch fences writes about them, and the leadership loads
the share state again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.cluster import EARLIEST, LATEST, NEWEST
from sharebroker_server.kafka_client.core.fetch_session import Position
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable, Ownership
from sharebroker_server.record_log.core.batch import StoredBatch, TimedOffset
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.record_log.lifecycle import not_leader
from sharebroker_server.upstream_log.core.chunks import Chunk, Chunks, UnreadChunks, chunk_of
from sharebroker_server.upstream_log.core.epochs import Divergence, EpochStart
from sharebroker_server.upstream_log.epoch_notes import EpochNotes
from sharebroker_server.upstream_log.fetching import alone, fetch, fetches_by_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sharebroker_server.kafka_client.connection import BrokerConnection
    from sharebroker_server.kafka_client.core.metadata import Leader
    from sharebroker_server.kafka_wire.messages import FetchResponse
    from sharebroker_server.record_log.log_reader import Span
    from sharebroker_server.upstream_log.upstream_cluster import UpstreamCluster, UpstreamPartition

_log = structlog.get_logger()

OPEN_SECONDS: Final = 5.0
"""The longest time in which a leader is found for a log, and then in which the log is opened."""

READ_SECONDS: Final = 10.0
"""The longest time of one read, or of one other question to the cluster."""

TIME_SECONDS: Final = 2.0
"""The longest time of a read for the time of a record."""

READS: Final = "reads"
"""The purpose of connections for fetches that do not wait (see `ClusterClient.connection`)."""

PATIENCE: Final = 5.0
"""Seconds in which the session meets errors before they are logged: an election takes a moment."""

ERROR_PERIOD: Final = 60.0
"""Seconds between two log lines about the errors of a partition."""

BEHIND_SECONDS: Final = 1.0
LONGEST_BEHIND_SECONDS: Final = 8.0
"""Seconds between two requests for the bounds of a log that the session leaves out, at first and at most."""

_FOR_MEMBERS: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors that members receive as they are."""


class UpstreamLog:
    """A `LogReader`; create it with `open`.

    `on_append` holds callbacks without arguments, called after the bounds have moved; `on_truncated` is
    called after the log lost records that readers may have seen. They must not raise or block.
    """

    transactions: Final = Transactions()
    size: Final = 0
    loses_records: Final = True

    def __init__(
        self,
        partition: str,
        epoch: int,
        source: UpstreamPartition,
        cluster: UpstreamCluster,
        lease: Ownership,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.source = source
        self.on_append: list[Callable[[], None]] = []
        self.on_truncated: list[Callable[[], None]] = []
        self.not_before = 0.0
        """The time of the event loop before which the session leaves this partition out."""
        self._behind_pause = self._bounds_due = 0.0
        self._cluster = cluster
        self._lease = lease
        self._notes = EpochNotes(cluster.store, partition)
        self._start = self._end = self._stable = 0
        self._next = 0
        self._unread = UnreadChunks()
        self._chunks = Chunks(cluster.cache, cluster.limits.cached)
        self._committed = Chunks(cluster.cache, cluster.limits.cached)
        self._fetches: dict[tuple[int, bool], asyncio.Task[None]] = {}
        self._compared: int | None = None
        self._comparing = asyncio.Lock()
        self._opened = self._closed = False
        self._failing_since: float | None = None
        self._last_error = float("-inf")

    @classmethod
    async def open(
        cls,
        partition: str,
        epoch: int,
        source: UpstreamPartition,
        cluster: UpstreamCluster,
        lease: Ownership,
    ) -> UpstreamLog:
        """Compares the log with what was read of it before, and finds its bounds.

        Raises:
            KafkaError: as `read`.
        """
        log = cls(partition, epoch, source, cluster, lease)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await log._notes.load()
                await log._bounds()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The cluster did not describe {source} in time."
            ) from None
        except KafkaError as error:
            raise log._for_members(error) from error
        log._next = log._end
        log._opened = True
        return log

    # Bounds

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        return self._start

    @property
    def records_end_offset(self) -> int:
        """The high watermark, as of the last fetch."""
        return self._end

    @property
    def last_stable_offset(self) -> int:
        """The start of the earliest open transaction, else the log end: the limit of read_committed."""
        return self._stable

    @property
    def retention_ms(self) -> int:
        """The age in ms at which the cluster deletes records; -1 without a limit, or if it is unknown."""
        return self._cluster.client.retention_ms(self.source.topic)

    @property
    def is_behind(self) -> bool:
        """Whether the session leaves this partition out, so that the bounds may not be current."""
        return self._unread.size >= self._cluster.limits.tail

    async def void_from(self, loaded_under: int, end: int) -> int | None:
        """Returns the offset from which share state is void (see `LogReader`).

        Raises:
            KafkaError: as `read`.
        """
        void = self._notes.history.void_from(loaded_under)
        if end > self._end:
            await self.refresh()
        if end > self._end:  # the log lost records without another leader
            void = self._end if void is None else min(void, self._end)
        return void

    async def refresh(self) -> None:
        """Makes the bounds current.

        Raises:
            KafkaError: as `read`.
        """
        try:
            await self._bounds()
        except KafkaError as error:
            raise self._for_members(error) from error
        self._notify()

    async def _bounds(self) -> None:
        client, (topic, index, _) = self._cluster.client, self.source
        while True:
            await self.compare()
            compared = self._compared
            start = await client.listed_offset(topic, index, EARLIEST, READ_SECONDS)
            stable = await client.listed_offset(topic, index, LATEST, READ_SECONDS, committed=True)
            end = await client.listed_offset(topic, index, LATEST, READ_SECONDS)
            leader = client.metadata.leader(topic, index)
            if leader is not None and leader.epoch == compared == self._compared:
                break
        # Groups may start at the end: records that are there later must be of this epoch or a later one.
        await self._notes.read([EpochStart(end.leader_epoch, end.offset)], self.epoch)
        self._move(start.offset, end.offset, stable.offset)

    def _move(self, start: int, end: int, stable: int) -> bool:
        """Moves the bounds up; returns whether any moved. A broker may answer with earlier ones."""
        before = (self._start, self._end, self._stable)
        self._start = max(self._start, start)
        self._end = max(self._end, end, self._start)
        self._stable = min(max(self._stable, stable, self._start), self._end)
        if self._start > before[0]:
            self._chunks.drop_outside(self._start, self._end)
            self._committed.drop_outside(self._start, self._end)
            self._next = max(self._next, self._start)
        return before != (self._start, self._end, self._stable)

    # Reads

    def read_hot(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch] | None:
        """Returns batches from memory; None if they are not there (see `LogReader`)."""
        self._check_readable()
        if not self._start <= offset <= self._end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.source} has the offsets {self._start} to {self._end}, not {offset}.",
            )
        if offset == (self._stable if committed else self._end):
            return []
        found = self._chunks.read(offset, max_bytes, plain=committed)
        if found is None and committed:
            found = self._committed.read(offset, max_bytes)
        if found is not None:
            self._has_read(found[-1].last_offset + 1)
        return found

    async def read(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch]:
        """Returns batches, fetched if needed (see `LogReader`).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER; TOPIC_AUTHORIZATION_FAILED,
                UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION;
                KAFKA_STORAGE_ERROR for any other trouble.
        """
        found = self.read_hot(offset, max_bytes, committed=committed)
        if found is not None:
            return found
        key = (offset, committed)
        running = self._fetches.get(key)
        if running is None:
            running = self._fetches[key] = asyncio.create_task(self._fetch(offset, committed=committed))
            running.add_done_callback(lambda task: self._fetch_ended(key, task))
        # Another reader may wait for the same fetch: it goes on if this one is cancelled.
        await asyncio.wait([running])
        try:
            running.result()
        except KafkaError as error:
            raise self._for_members(error) from error
        except asyncio.CancelledError:
            raise not_leader(self.partition) from None
        return self.read_hot(offset, max_bytes, committed=committed) or []

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Returns the first record with `timestamp` (ms) or later, None if all records are older."""
        return await self._listed(max(timestamp, 0))

    async def offset_of_newest(self) -> TimedOffset | None:
        """Returns the record with the highest timestamp, None for an empty log."""
        return await self._listed(NEWEST)

    async def time_of(self, offset: int) -> int:
        """Returns the timestamp (ms) of a record, or a slightly later one; -1 if it cannot be read soon."""
        if self._known_time(offset) < 0:
            try:
                async with asyncio.timeout(TIME_SECONDS):
                    await self.read(offset, 1)
            except (KafkaError, TimeoutError):
                return -1
        return self._known_time(offset)

    def _known_time(self, offset: int) -> int:
        chunk = self._chunks.find(offset)
        batch = None if chunk is None else next(chunk.from_offset(offset), None)
        return -1 if batch is None else batch.max_timestamp

    def aborted_batches(self, batches: Sequence[StoredBatch]) -> list[Span]:
        """Returns the spans of those batches whose transactions were aborted (see `LogReader`)."""
        if not batches:
            return []
        spans = set(self._committed.aborted_in(batches[0].base_offset, batches[-1].last_offset))
        return [span for batch in batches if (span := (batch.base_offset, batch.last_offset)) in spans]

    async def recheck(self) -> None:
        """Stores the notes again: the store may have lost them. Raises LogUnavailable."""
        await self._notes.recheck(self.epoch)

    async def close(self) -> None:
        """Ends reads and leaves the session."""
        self._closed = True
        self._cluster.removed(self)
        for running in [*self._fetches.values()]:
            running.cancel()
        self._chunks.clear()
        self._committed.clear()

    # The session

    def position(self, leader: Leader) -> Position | None:
        """Returns where the session fetches next; None to leave this partition out for now."""
        if self._closed or self._compared != leader.epoch or self.is_behind:
            return None
        return Position(self._next, self._cluster.settings.partition_bytes, leader.epoch)

    def needs_comparison(self, leader: Leader) -> bool:
        """Whether the log of this leader has to be compared with what was read."""
        return not self._closed and self._compared != leader.epoch

    async def fetched(self, part: FetchResponse.PartitionData, position: Position) -> None:
        """Applies a part of a session's response, without error.

        Raises:
            KafkaError: as `read`; the partition may be fetched again.
        """
        self._failing_since = None
        chunk = await self._apply(part, position.offset, position.leader_epoch, committed=False)
        if chunk is not None and chunk.start <= self._next < chunk.end and position.offset == self._next:
            self._next = chunk.end
            self._unread.add(chunk)
        self._notify()

    def out_of_range(self) -> None:
        """Resumes at the log end after the cluster has no record at the session's offset any more."""
        self._compared = None  # the log may be shorter, without another leader
        self._next = max(self._start, min(self._next, self._end))

    def needs_bounds(self, now: float) -> bool:
        """Whether to ask for the bounds now, a time of the event loop, because the log is behind.

        Readers may wait at its end, and read nothing that would bring it back into the session.
        """
        if self._closed or not self.is_behind:
            self._behind_pause = self._bounds_due = 0.0
            return False
        if now < self._bounds_due:
            return False
        was_behind = self._behind_pause > 0
        self._behind_pause = min(2 * self._behind_pause or BEHIND_SECONDS, LONGEST_BEHIND_SECONDS)
        self._bounds_due = now + self._behind_pause
        return was_behind

    @property
    def failing(self) -> bool:
        """Whether the last result of the session was an error."""
        return self._failing_since is not None

    def failed(self, error: KafkaError, pause: float) -> None:
        """Leaves the session for a pause, in seconds."""
        now = asyncio.get_running_loop().time()
        self.not_before = now + pause
        self._failing_since = self._failing_since or now
        if now - self._failing_since >= PATIENCE:
            self._report(error)

    # Fetches

    async def _fetch(self, offset: int, *, committed: bool) -> None:
        async def ask(connection: BrokerConnection, leader: Leader) -> None:
            await self.compare()
            part = await self._fetch_from(connection, leader, offset, committed=committed)
            chunk = await self._apply(part, offset, leader.epoch, committed=committed)
            if chunk is not None and not committed and chunk.start <= self._next < chunk.end:
                self._next = chunk.end

        await self._cluster.client.at_leader(*self.source[:2], READ_SECONDS, ask, READS)
        self._notify()

    def _fetch_ended(self, key: tuple[int, bool], task: asyncio.Task[None]) -> None:
        self._fetches.pop(key, None)
        if not task.cancelled():
            task.exception()  # readers that wait raise it; there may be none

    async def _fetch_from(
        self, connection: BrokerConnection, leader: Leader, offset: int, *, committed: bool
    ) -> FetchResponse.PartitionData:
        topic = self._cluster.topic_key(self.source, by_id=fetches_by_id(connection))
        partition = (topic, self.source.partition)
        settings = self._cluster.settings
        asked = alone(partition, Position(offset, settings.partition_bytes, leader.epoch))
        response = await fetch(connection, asked, settings, committed=committed, max_wait_ms=0)
        _check(response.error_code)
        part = response.partitions.get(partition)
        if part is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The response does not contain {self.source}.")
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.out_of_range()
            await self._bounds()
        _check(part.error_code)
        return part

    async def _apply(
        self, part: FetchResponse.PartitionData, offset: int, leader_epoch: int, *, committed: bool
    ) -> Chunk | None:
        """Adds the records of a response; returns None if there is none, or if it came too late."""
        aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
        chunk = chunk_of(part.records or b"", offset, aborted)
        if chunk is not None and self._compared == leader_epoch:
            await self._notes.read(chunk.epochs, self.epoch)
        if self._closed or self._compared != leader_epoch:
            return None
        self._move(part.log_start_offset, part.high_watermark, part.last_stable_offset)
        if chunk is not None:
            (self._committed if committed else self._chunks).add(chunk)
            self._cluster.counters.fetched_bytes += chunk.size
        return chunk

    async def _listed(self, timestamp: int) -> TimedOffset | None:
        self._check_readable()
        try:
            found = await self._cluster.client.listed_offset(*self.source[:2], timestamp, READ_SECONDS)
        except KafkaError as error:
            raise self._for_members(error) from error
        return TimedOffset(found.offset, found.timestamp) if found.offset >= 0 else None

    def _has_read(self, end: int) -> None:
        """Notes that readers have the records up to the offset `end`."""
        self._next = max(self._next, end)  # the session reads ahead of the foremost reader
        if self._unread.read_to(end):
            self._cluster.wake(self)

    # Leader epochs

    async def compare(self) -> None:
        """Compares the log of the present leader with what was read, unless that was done.

        Raises:
            KafkaError: the error of the cluster, or of the store.
        """
        client, (topic, index, _) = self._cluster.client, self.source
        leader = client.metadata.leader(topic, index)
        if leader is not None and leader.epoch == self._compared:
            return
        async with self._comparing:
            while True:
                leader = await client.leader(topic, index, READ_SECONDS)
                if leader.epoch == self._compared:
                    return
                divergence = Divergence(self._notes.history.epochs)
                while not divergence.ended:
                    found = await client.epoch_end(topic, index, divergence.epoch, READ_SECONDS)
                    divergence.answer(*found, leader.epoch)
                if divergence.is_other:  # the metadata may be that of a deposed leader
                    await client.refresh([topic])
                if client.metadata.leader(topic, index) == leader:
                    break  # else another leader has answered
            self._cluster.check_other_log(self.source, is_other=divergence.is_other)
            if divergence.offset is not None:
                await self._diverged(divergence.offset, leader.epoch)
            self._compared = leader.epoch
        self._cluster.wake(self)

    async def _diverged(self, offset: int, leader_epoch: int) -> None:
        """Notes that nothing that was read from an offset on is certain to exist."""
        if offset >= self._end if self._opened else leader_epoch == self._notes.history.last_epoch:
            return
        epoch = self.epoch
        if self._opened:
            try:
                epoch = await self._lease.reclaim()
            except (LeaseLost, LeasesUnavailable) as error:
                raise not_leader(self.partition) from error
        await self._notes.truncated(offset, epoch)
        # Not before: state that is loaded while the note is written counts as loaded before the truncation.
        self.epoch = epoch
        if not self._opened:
            return
        _log.error(
            "the cluster truncated records that were read",
            topic=self.source.topic,
            partition=self.source.partition,
            first_offset=offset,
            log_end=self._end,
            leader_epoch=leader_epoch,
        )
        self._cluster.counters.truncations += 1
        self._end = self._next = offset
        self._stable, self._start = min(self._stable, offset), min(self._start, offset)
        self._unread = UnreadChunks()
        self._chunks.drop_outside(self._start, offset)
        self._committed.drop_outside(self._start, offset)
        for callback in self.on_truncated:
            callback()

    # Errors

    def _notify(self) -> None:
        for callback in self.on_append:
            callback()

    def _check_readable(self) -> None:
        if self._closed or not self._lease.holds(self.epoch):
            raise not_leader(self.partition)

    def _for_members(self, error: KafkaError) -> KafkaError:
        """Returns the error as members receive it; errors of the cluster are reported."""
        if error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
            return error
        self._report(error)
        if error.code in _FOR_MEMBERS:
            return error
        message = f"{self.source} cannot be read from its cluster: {error.code.name}: {error.message}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message, retry_after=error.retry_after)

    def _report(self, error: KafkaError) -> None:
        """Logs an error, once in ERROR_PERIOD for a partition."""
        self._cluster.counters.errors += 1
        now = asyncio.get_running_loop().time()
        if now - self._last_error >= ERROR_PERIOD:
            self._last_error = now
            _log.warning(
                "a partition of the cluster cannot be read",
                topic=self.source.topic,
                partition=self.source.partition,
                error=error.code.name,
                reason=error.message,
            )


def _check(error_code: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code))
