"""A share group's records of one led partition: the pure share-partition, its durable writes, its timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquireMode
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_calls.values import Left
from sharebroker_server.share_partition_leader.config import DELIVERY_BYTES, STOP_TIMEOUT
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.partition import SharePartition
from sharebroker_server.share_partition_leader.core.values import AcquireRequest, SharePartitionSettings
from sharebroker_server.share_partition_leader.partition.fetch_result import Nothing, Taken, bytes_of
from sharebroker_server.share_partition_leader.partition.isolation import hidden_spans, visible_end
from sharebroker_server.share_partition_leader.partition.listeners import Consumer, Waiter
from sharebroker_server.share_partition_leader.partition.lock_holders import member_of
from sharebroker_server.share_partition_leader.partition.retry_queue import Owed
from sharebroker_server.share_partition_leader.partition.state_writes import (
    Done,
    StateWriter,
    Writes,
    Written,
)

DROPPING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Failures of a state write after which the state is loaded anew: somebody else changed it."""


class ShareGroupPartition:
    """Shell of one share-partition: every change is durable before it is answered.

    Once `retired` it refuses everything; whoever looks it up finds another.
    """

    def __init__(
        self,
        group_id: str,
        topic: str,
        log: PartitionLog,
        core: SharePartition,
        state: StateWriter,
        retire: Callable[[ShareGroupPartition], None],
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.topic_id, self.partition = names.topic_partition(log.partition)
        self.core = core
        self.retired = False
        self._log = log
        self._on_retired = retire
        self._stopping = False
        self._abandoned = False
        self._reading = False
        self._consumers: dict[str, Consumer] = {}
        self._waiting: dict[Waiter, None] = {}
        self._writes = Writes(core, state, self._written, self._rested)
        self._owed = Owed(lambda transition: self._persist(transition, None))
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = 0.0

    # Who is there

    def join(self, consumer: Consumer) -> None:
        """Makes a consumer known, so that it hears of locks it loses."""
        self._consumers[consumer.holder] = consumer

    def leave(self, consumer: Consumer, *, unseen: bool = False) -> None:
        """A consumer is gone: what it holds is released; as if not delivered where it is `unseen`."""
        self._consumers.pop(consumer.holder, None)
        self.wait_no_more(consumer)
        if unseen:
            self.core.give_back_all(consumer.holder)
            self.wake()
        else:
            self._release(consumer.holder)
        self._abandon()

    def release_member(self, member_id: str, session_id: str = "") -> None:
        """Releases what a member holds, through its streams too; durable soon, but nobody waits for it.

        With `session_id` only what that share session of the member acquired.
        """
        holders = {held.member for held in self.core.held()}
        for holder in holders:
            if member_of(holder) == member_id:
                self._release(holder, session_id)
        self._abandon()

    def wait(self, waiter: Waiter) -> None:
        """Asks for one `look_again` when records may have become available."""
        self._waiting[waiter] = None

    def wait_no_more(self, waiter: Waiter) -> None:
        """Takes `wait` back."""
        self._waiting.pop(waiter, None)

    def wake(self) -> None:
        """Records may have become available: whoever waits looks again, in the order in which they came."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            waiter.look_again(self)

    def tell_start(self) -> None:
        """Has the start offset written where no acknowledgement will bring it along.

        So it is at the end of what transactions hide, and where loading finds more finished than is counted:
        a write that comes late changes states alone.
        """
        transition = self.core.untold(self._writes.told)
        if transition is not None and not self._stopping:
            self._persist(transition, None)

    def configure(self, settings: SharePartitionSettings) -> None:
        """Follows a change of the group's configuration."""
        self.core.settings = settings
        self.wake()

    # Records out, acknowledgements in

    def acquire(self, request: AcquireRequest, max_bytes: int = 0) -> Taken | Nothing:
        """Acquires records that are in memory: one batch, and more up to `max_bytes` (0: a delivery's).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER.
        """
        self._check_serving()
        while (offset := self._fetch_offset()) is not None:
            batches = self._log.read_hot(offset, _at_once(max_bytes))
            if batches is None:
                return Nothing.COLD
            acquisition = self._take(request, offset, batches)
            if acquisition is not None:
                return acquisition
            if self.core.next_fetch_offset() == offset:
                break
        return Nothing.EMPTY

    async def acquire_cold(self, request: AcquireRequest, max_bytes: int = 0) -> Taken | Nothing:
        """Acquires records, reading them from the store where need be; one read at a time.

        Raises KafkaError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
        """
        self._check_serving()
        offset = self._fetch_offset()
        if offset is None:
            return Nothing.EMPTY
        self._reading = True
        try:
            batches = await self._log.read(offset, _at_once(max_bytes))
        finally:
            self._reading = False
            self.wake()
        self._check_serving()
        if not batches:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The store has no records from offset {offset} on."
            )
        return self._take(request, offset, batches) or self.acquire(request, max_bytes)

    def is_quiet(self) -> bool:
        """Whether nothing can be acquired now; `wait` tells when that may have changed."""
        return not self._stopping and self._fetch_offset() is None

    def acknowledge(self, holder: str, batches: Sequence[AckBatch], done: Done, delay: float = 0.0) -> None:
        """Applies acknowledgements, all or none; `done` is told when they are durable, or why they are not.

        Raises KafkaError where they cannot be applied; `done` is not called then.
        """
        self._check_serving()
        transition = self.core.acknowledge(holder, batches, now(), delay)
        self._tell_when_durable(transition or self.core.passed(batches, self._writes.stored), done)

    def give_back(self, holder: str, batches: Sequence[AckBatch]) -> None:
        """Takes back, all or none, what the holder never looked at; in effect at once.

        Raises KafkaError where that cannot be.
        """
        self._check_serving()
        self.core.give_back(holder, batches)
        self.wake()

    def settle(self, holder: str, batches: Sequence[AckBatch], done: Done) -> Sequence[Left]:
        """Applies what can be applied of what a member says it was given; what was left as it is.

        `done` is told when it is durable. Raises KafkaError where nothing can be applied.
        """
        self._check_serving()
        self.core.move_log_start(self._log.log_start_offset)
        end = visible_end(self._log, committed=self._committed)
        transition, left = self.core.settle(holder, batches, end, now())
        self._abandoned = False
        self._arm()
        self._tell_when_durable(transition or self.core.passed(batches, self._writes.stored), done)
        return left

    def isolates(self, acquisition: Taken) -> bool:
        """Whether what was acquired has failed so often that nothing else is to be worked on beside it."""
        return acquisition.acquired[0].delivery_count > self.core.settings.throttle_limit

    def renewed_deadline(self) -> float:
        """When a lock that is renewed now runs out."""
        return now() + self.core.settings.lock_duration

    # The end

    async def stop(self) -> None:
        """Ends in good order: takes nothing more, has its time to write what was asked for, then retires."""
        self._stopping = True
        self._owed.pay()
        await self._writes.idle(STOP_TIMEOUT)
        self.retire()

    def retire(self) -> None:
        """Ends at once: locks are lost, changes that are not on their way to be durable are refused."""
        if self.retired:
            return
        self.retired = self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._owed.forgive()
        self._on_retired(self)
        self._writes.refuse(_given_up())
        consumers, waiting = self._consumers, self._waiting
        self._consumers, self._waiting = {}, {}
        for lost in self.core.held():
            if lost.member in consumers:
                consumers[lost.member].lock_lost(self, lost)
        for waiter in dict.fromkeys((*consumers.values(), *waiting)):
            waiter.retired(self)

    def drop_unused(self) -> None:
        """Retires when nobody is there, holds anything or waits: the next one loads the state anew.

        So an altered start offset counts; groups that are gone take no memory (Kafka: at their last session).
        """
        busy = self._reading or self._writes.busy or self._owed
        if not (self._consumers or self._waiting or busy or self.core.held()):
            self.retire()

    def _abandon(self) -> None:
        self._abandoned = True
        self.drop_unused()

    def _check_serving(self) -> None:
        if self._stopping:
            raise _given_up()

    # Reading

    def _fetch_offset(self) -> int | None:
        """Where to read on; None when nothing can be acquired now, or somebody is reading already."""
        self.core.move_log_start(self._log.log_start_offset)
        if self._reading or not self.core.can_acquire():
            return None
        offset = self.core.next_fetch_offset()
        return offset if offset < visible_end(self._log, committed=self._committed) else None

    def _take(self, request: AcquireRequest, offset: int, batches: Sequence[StoredBatch]) -> Taken | None:
        if self._committed:
            batches = [batch for batch in batches if batch.last_offset < self._log.last_stable_offset]
        spans = [(batch.base_offset, batch.last_offset) for batch in batches]
        hidden = hidden_spans(self._log, batches, self._committed, with_markers=request.with_markers)
        if hidden and hidden[0] == spans[0]:
            self._pass(request, offset, hidden[0])
            return None
        acquired = self.core.acquire(request, offset, spans, now())
        if hidden:
            acquired = self.core.archive_aborted(acquired, hidden)
        if not acquired:
            return None
        self._abandoned = False
        self._arm()
        return Taken(acquired, bytes_of(batches, acquired))

    def _pass(self, request: AcquireRequest, offset: int, span: tuple[int, int]) -> None:
        """Puts a whole batch behind us that nobody is to get, however few records were asked for."""
        whole = request._replace(max_records=span[1] - span[0] + 1, mode=AcquireMode.BATCH_OPTIMIZED)
        self.core.archive_aborted(self.core.acquire(whole, offset, [span], now()), [span])
        self.tell_start()

    @property
    def _committed(self) -> bool:
        return self.core.settings.read_committed

    # Writing

    def _release(self, holder: str, session_id: str = "") -> None:
        transition = self.core.release_member(holder, session_id)
        if transition is not None:
            self._persist(transition, None)

    def _tell_when_durable(self, transition: Transition | None, done: Done) -> None:
        if transition is None:
            done(None)
        else:
            self._persist(transition, done)

    def _persist(self, transition: Transition, done: Done | None) -> None:
        self._writes.add(transition, done)

    def _written(self, written: Written) -> None:
        transitions, done, error = written
        freed = self.core.complete(transitions, error.code if error else None)
        for tell in done:
            tell(error)
        if error is not None and error.code in DROPPING:
            self.retire()
        elif error is not None and not self.retired:
            self._owed.note(transitions)
        self._arm()
        self.tell_start()
        if freed.fetchable:
            self.wake()

    def _rested(self) -> None:
        if self._abandoned:
            self.drop_unused()

    # Time

    def _arm(self) -> None:
        """Keeps one timer, for the lock that runs out first; a timer that is too early does no harm."""
        deadline = self.core.next_deadline()
        if deadline is None or self.retired:
            return
        if self._timer is not None:
            if deadline >= self._timer_deadline:
                return
            self._timer.cancel()
        self._timer_deadline = deadline
        self._timer = asyncio.get_running_loop().call_later(deadline - now(), self._expire)

    def _expire(self) -> None:
        self._timer = None
        expired = self.core.expire(now())
        for lost in expired.lost:
            consumer = self._consumers.get(lost.member)
            if consumer is not None:
                consumer.lock_lost(self, lost)
        if expired.transition is not None:
            self._persist(expired.transition, None)
            self.wake()
        self._arm()


def _at_once(max_bytes: int) -> int:
    return min(max_bytes or DELIVERY_BYTES, DELIVERY_BYTES)


def _given_up() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The share-partition was given up here.")
