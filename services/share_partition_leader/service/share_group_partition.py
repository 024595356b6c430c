"""A share group's records of one led partition: the pure share-partition, its durable writes, its timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from libs.clock import now
from libs.record_log.core.batch import StoredBatch
from libs.record_log.partition_log import PartitionLog
from services.share_partition_leader.config import DELIVERY_BYTES
from services.share_partition_leader.core.in_flight import Transition
from services.share_partition_leader.core.partition import SharePartition
from services.share_partition_leader.core.values import (
    AckBatch,
    Acquired,
    AcquireRequest,
    LostLock,
    StateWrite,
)
from sharebroker.errors import ErrorCode, KafkaError

DROPPING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    }
)
"""Failures of a state write after which the state is loaded anew: somebody else changed it."""

Done = Callable[[KafkaError | None], None]


class Acquisition(NamedTuple):
    """Runs acquired for a member, and the record batches that hold them."""

    acquired: Sequence[Acquired]
    records: bytes

    @property
    def offsets(self) -> int:
        """How many offsets were acquired."""
        return sum(run.last - run.first + 1 for run in self.acquired)


class Nothing(Enum):
    """Why nothing was acquired."""

    EMPTY = auto()
    """No record is available; `wait` tells when to look again."""
    COLD = auto()
    """The records are no longer in memory; `acquire_cold` reads them."""


class Consumer(Protocol):
    """A stream or a waiting fetch."""

    holder: str

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this consumer ran out."""

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """This object is not used any more; what was held through it is lost."""


StateWriter = Callable[[StateWrite], Awaitable[None]]
"""Makes a change durable. Raises KafkaError, in the codes that a consumer may see."""


class ShareGroupPartition:
    """Shell of one share-partition: every change is durable before it is answered.

    Writes leave one at a time, so they reach the share coordinator in order; what comes while one is under
    way goes out together next.
    """

    def __init__(
        self,
        group_id: str,
        topic: str,
        log: PartitionLog,
        core: SharePartition,
        write: StateWriter,
        retire: Callable[[ShareGroupPartition], None],
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        _, self.topic_id, partition = log.partition.split(":")
        self.partition = int(partition)
        self.core = core
        self._log = log
        self._write_state = write
        self._on_retired = retire
        self._retired = False
        self._reading = False
        self._consumers: dict[str, Consumer] = {}
        self._waiting: dict[Consumer, None] = {}
        self._pending: list[tuple[Transition, Done | None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def join(self, consumer: Consumer) -> None:
        """Makes a consumer known, so that it hears of locks it loses."""
        self._consumers[consumer.holder] = consumer

    def leave(self, consumer: Consumer) -> None:
        """A consumer is gone: what it holds is released."""
        self._consumers.pop(consumer.holder, None)
        self._waiting.pop(consumer, None)
        self.release(consumer.holder)

    def wait(self, consumer: Consumer) -> None:
        """Asks for one `look_again` when records may have become available."""
        self._waiting[consumer] = None

    def wake(self) -> None:
        """Records may have become available: whoever waits looks again, in the order in which they came."""
        waiting, self._waiting = self._waiting, {}
        for consumer in waiting:
            consumer.look_again(self)

    def acquire(self, request: AcquireRequest) -> Acquisition | Nothing:
        """Acquires records that are in memory."""
        if self._retired or self._reading or not self.core.can_acquire():
            return Nothing.EMPTY
        offset = self._fetch_offset()
        if offset >= self._log.log_end_offset:
            return Nothing.EMPTY
        batches = self._log.read_hot(offset, DELIVERY_BYTES)
        return Nothing.COLD if batches is None else self._take(request, offset, batches)

    async def acquire_cold(self, request: AcquireRequest) -> Acquisition | None:
        """Acquires records, reading them from the store where need be; one read at a time.

        Raises KafkaError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
        """
        if self._reading:
            return None
        self._reading = True
        try:
            offset = self._fetch_offset()
            batches = await self._log.read(offset, DELIVERY_BYTES)
        finally:
            self._reading = False
        taken = Nothing.EMPTY if self._retired else self._take(request, offset, batches)
        self.wake()
        return None if isinstance(taken, Nothing) else taken

    def acknowledge(self, member: str, batches: Sequence[AckBatch], done: Done) -> None:
        """Applies acknowledgements, all or none; `done` is told when they are durable, or why they are not.

        Raises KafkaError where they cannot be applied; `done` is not called then.
        """
        transition = self.core.acknowledge(member, batches, now())
        self._arm()
        if transition is None:
            done(None)
        else:
            self._persist(transition, done)

    def renewed_deadline(self) -> float:
        """When a lock that is renewed now runs out."""
        return now() + self.core.settings.lock_duration

    def release(self, member: str) -> None:
        """Releases what a member holds; durable soon, but nobody waits for it."""
        transition = self.core.release_member(member)
        if transition is not None:
            self._persist(transition, None)

    def release_all(self, member: str) -> None:
        """Releases what a member holds, also through streams of its own."""
        for holder in (member, *(name for name in self._consumers if name.rpartition("@")[0] == member)):
            self.release(holder)

    def retire(self) -> None:
        """Stops: locks are lost, changes that are not durable are refused."""
        if self._retired:
            return
        self._retired = True
        if self._timer is not None:
            self._timer.cancel()
        self._on_retired(self)
        self._refuse(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The share-partition was given up."))
        consumers, self._consumers, self._waiting = self._consumers, {}, {}
        for lost in self.core.held():
            if lost.member in consumers:
                consumers[lost.member].lock_lost(self, lost)
        for consumer in consumers.values():
            consumer.retired(self)

    async def settle(self) -> None:
        """Waits until everything asked for is durable or refused."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    def _fetch_offset(self) -> int:
        if self.core.next_fetch_offset() < self._log.log_start_offset:
            self.core.move_log_start(self._log.log_start_offset)
        return self.core.next_fetch_offset()

    def _take(
        self, request: AcquireRequest, offset: int, batches: Sequence[StoredBatch]
    ) -> Acquisition | Nothing:
        spans = [(batch.base_offset, batch.last_offset) for batch in batches]
        acquired = self.core.acquire(request, offset, spans, now())
        if not acquired:
            return Nothing.EMPTY
        self._arm()
        first, last = acquired[0].first, acquired[-1].last
        needed = [batch.data for batch in batches if batch.last_offset >= first and batch.base_offset <= last]
        return Acquisition(acquired, needed[0] if len(needed) == 1 else b"".join(needed))

    def _persist(self, transition: Transition, done: Done | None) -> None:
        self._pending.append((transition, done))
        if self._writer is None:
            # The task begins with the loop's next turn: what this turn still brings goes out with it.
            self._writer = asyncio.create_task(self._write_pending())

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                pending, self._pending = self._pending, []
                transitions = [transition for transition, _ in pending]
                error = await self._write(transitions)
                freed = self.core.complete(transitions, error.code if error else None)
                for _, done in pending:
                    if done is not None:
                        done(error)
                self._written(error, freed.fetchable)
        finally:
            self._writer = None

    async def _write(self, transitions: Sequence[Transition]) -> KafkaError | None:
        try:
            await self._write_state(self.core.write(transitions))
        except KafkaError as error:
            return error
        return None

    def _written(self, error: KafkaError | None, fetchable: bool) -> None:
        self._arm()
        if error is not None and error.code in DROPPING:
            self.retire()
        elif fetchable:
            self.wake()

    def _refuse(self, error: KafkaError) -> None:
        pending, self._pending = self._pending, []
        for _, done in pending:
            if done is not None:
                done(error)

    def _arm(self) -> None:
        """Keeps one timer, for the lock that runs out first; a timer that is too early does no harm."""
        deadline = self.core.next_deadline()
        if deadline is None or self._retired:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + deadline - now()
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        expired = self.core.expire(now())
        for lost in expired.lost:
            consumer = self._consumers.get(lost.member)
            if consumer is not None:
                consumer.lock_lost(self, lost)
        if expired.transition is not None:
            self._persist(expired.transition, None)
        self._arm()
        if expired.lost:
            self.wake()
