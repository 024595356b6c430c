"""The leader's side of a delivery stream: sends records within the credit, applies acknowledgements.

One object serves one member over one stream; all of it runs on the thread of the event loop. The gateway of
the same process calls it directly. The servicer calls it for a gateway in another process.

Partitions. Each partition that the gateway assigned is in one of these states:

* with a task: it is being loaded, read from the store, or waits after an error. There is at most one task.
* ready: it may have records, and is served in turn while credit lasts.
* idle: it had no records; the stream waits as an observer and `records_available` makes the partition ready.

`_advance` moves a partition to its next state; it is called whenever an assignment, a task or a notification
changes something. `retired` ends the use of a share-partition: a successor is loaded.

Credit. The gateway grants a number of records; each acquired offset uses one. Acknowledgements are applied
before the credit of the same message, because they make room for further records.

Pausing and isolation. After a lost lock the stream may pause until the member resumes it. A record that
failed repeatedly is delivered alone: a member that crashes on it must not use up a delivery of other records.

Results. Acknowledgements of a partition are applied together. If the share-partition rejects them, they are
divided until each rejected record is known. Every acknowledgement gets exactly one result per offset range.

Order at the end: `finish` stops the delivery; `outputs` ends once every acknowledgement has its result;
`close` then releases the records that are still held.

Durable locks. With `durable_locks` the member holds the records, in a session that is this stream. Locks
that it renewed for at least a minute stay held at the end, unless the member left (`rest_unseen`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import MAX_REASON, TopicIdPartition
from sharebroker_server.aio import doubling
from sharebroker_server.leader_calls.values import DeliverInput, DeliverOpen, DeliverOutput
from sharebroker_server.share_partition_leader.core.events import (
    DEFAULT_BATCH_SIZE,
    Acknowledge,
    AcquireRequest,
    LostLock,
    UndoAcquire,
)
from sharebroker_server.share_partition_leader.core.runs import member_holder, stream_holder
from sharebroker_server.share_partition_leader.core.share_partition import relinquished
from sharebroker_server.share_partition_leader.leadership import (
    LOADS_AT_ONCE,
    LONGEST_RETRY_DELAY,
    Leadership,
)
from sharebroker_server.share_partition_leader.requests.stream_messages import (
    REJECT,
    AckGroup,
    AckRequest,
    NextMessage,
    coalesce,
    group_acks,
)
from sharebroker_server.share_partition_leader.share_partition.reading import Fetched, NotFetched
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)

_log = structlog.get_logger()

RETRY_DELAY: Final = 0.1
"""Seconds before the load of a share-partition is retried; doubles each time."""

UNSENT_BYTES: Final = 64 << 20
"""Bytes that the streams of a process have acquired and not sent, beyond which each acquires less at once."""

_LESS: Final = 64 << 10
"""Bytes of batches, or one larger batch, that a stream then acquires; the rest waits until they are sent."""

_DIVISIBLE: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Errors that may concern only some of the acknowledged records."""

_numbers: Final = count(1)
"""The numbers of this process's streams."""


class DeliverySession:
    """A `DeliverStream`; see the module."""

    def __init__(self, opening: DeliverOpen, partitions: Leadership) -> None:
        self.group_id = opening.group_id
        self.holder = stream_holder(next(_numbers), opening.member_id, opening.principal)
        self.session = ""
        if opening.client_id:
            partitions.add_client((opening.group_id, opening.member_id), opening.client_id)
        if opening.durable_locks:
            self.session = self.holder
            self.holder = member_holder(opening.member_id, opening.principal)
        batch_size = opening.batch_size or DEFAULT_BATCH_SIZE
        self._request = AcquireRequest(
            self.holder, 0, batch_size, opening.mode, session=self.session, lock=opening.lock
        )
        self._partitions = partitions
        self._assigned: set[TopicIdPartition] = set()
        self._served: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._ready: dict[TopicIdPartition, None] = {}
        self._tasks: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._isolated: set[TopicIdPartition] = set()
        self._credit = 0
        self._unsent = 0
        self._scheduled = False
        self._unanswered = 0
        self._rest_unseen = False
        self._pauses = opening.pause_on_lock_lost
        self._paused = False
        self._finished = False
        self._queue = NextMessage()

    # The stream

    async def send(self, message: DeliverInput) -> None:
        """Applies a message; then waits while too many results are unsent."""
        if message.acknowledgements:
            self._apply_acks(message)
        if message.partitions is not None:
            self._assign(message.partitions)
        self._rest_unseen |= message.rest_unseen
        self._paused &= not message.resume
        self._credit += message.credit
        self._schedule()
        await self._queue.drained()

    def finish(self) -> None:
        """Stops the delivery; `outputs` ends once every acknowledgement has its result."""
        self._assign(())
        self._finished = True
        self._queue.filled.set()

    async def outputs(self) -> AsyncGenerator[DeliverOutput, None]:
        """The messages to the member. Closing the generator releases what the stream holds."""
        try:
            while self._queue.entries or self._unanswered or not self._finished:
                await self._queue.filled.wait()
                self._queue.filled.clear()
                if self._queue.entries:
                    message, size = self._queue.pop(), self._unsent
                    self._schedule()
                    yield message
                    self._sent(size)
                    self._schedule()
        finally:
            self.close()

    def unanswered(self) -> Sequence[int]:
        """Nothing is lost within a process."""
        return ()

    def close(self) -> None:
        """Ends the stream and releases the records that it holds; repeated calls have no effect."""
        self._assign(())
        self._finished = True
        self._sent(self._unsent)
        for task in self._tasks.values():
            task.cancel()
        for share_partition in self._served.values():
            share_partition.leave(self, undo=self._rest_unseen)
        self._served.clear()

    # Notifications of share-partitions

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self._advance(share_partition.topic_partition)

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this stream timed out, or was lost with the share-partition."""
        self._paused = self._pauses
        self._queue.add_lost_lock(share_partition, lost)

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition was unloaded and its locks are lost: load its successor."""
        key = share_partition.topic_partition
        del self._served[key]
        self._ready.pop(key, None)
        self._isolated.discard(key)
        if key in self._tasks:
            self._tasks[key].cancel()
        self._advance(key)

    # Partitions

    def _assign(self, keys: Iterable[TopicIdPartition]) -> None:
        """Replaces the partitions to deliver from. Locks of other partitions stay held."""
        self._assigned = set(keys)
        self._ready = {key: None for key in self._ready if key in self._assigned}
        for key in self._assigned:
            self._advance(key)

    def _advance(self, key: TopicIdPartition) -> None:
        if key not in self._assigned or key in self._tasks:
            return
        if key in self._served:
            self._ready[key] = None
            self._schedule()
        else:
            self._start(key, self._load(key))

    def _start(self, key: TopicIdPartition, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(partial(self._task_ended, key))

    def _task_ended(self, key: TopicIdPartition, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled() and task.exception() is not None:
            _log.error("delivery failed", group=self.group_id, key=key, exc_info=task.exception())
            self._abandon(key, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        self._advance(key)

    async def _load(self, key: TopicIdPartition) -> None:
        pauses = doubling(RETRY_DELAY, LONGEST_RETRY_DELAY)
        while key in self._assigned:
            try:
                async with self._loads:
                    share_partition = await self._partitions.share_partition(self.group_id, *key)
            except KafkaError as error:
                if not error.retriable:
                    self._abandon(key, error)
                    return
                pause = next(pauses)
                # After the first error the partition may be on its way to this process.
                if pause > RETRY_DELAY:
                    self._queue.add_problem(*key, error)
                await asyncio.sleep(pause)
            else:
                self._served[key] = share_partition
                share_partition.join(self)
                return

    def _abandon(self, key: TopicIdPartition, error: KafkaError) -> None:
        """Stops serving the partition until the gateway assigns it again."""
        self._assigned.discard(key)
        self._queue.add_problem(*key, error)

    # Records

    def _schedule(self) -> None:
        if not self._scheduled and self._credit > 0 and self._ready and not self._paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Sends records, partition by partition in turn, within the credit and the size of a message."""
        self._scheduled = False
        while self._credit > 0 and self._ready and not self._paused and not self._full:
            key = next(iter(self._ready))
            del self._ready[key]
            self._deliver_from(self._served[key])

    @property
    def _full(self) -> bool:
        """Whether further records have to wait until others are sent."""
        return self._queue.full or (self._unsent > 0 and self._partitions.unsent_bytes >= UNSENT_BYTES)

    @property
    def _max_bytes(self) -> int:
        """The bytes to acquire at once; 0: as usual."""
        return _LESS if self._partitions.unsent_bytes >= UNSENT_BYTES else 0

    def _sent(self, size: int) -> None:
        size = min(size, self._unsent)  # nothing is left once the stream is closed
        self._unsent -= size
        self._partitions.unsent_bytes -= size

    def _deliver_from(self, share_partition: ShareGroupPartition) -> None:
        key = share_partition.topic_partition
        if self._must_finish_first(share_partition):
            share_partition.add_listener(self)
            return
        try:
            fetched = share_partition.acquire(self._request.limited_to(self._credit), self._max_bytes)
        except KafkaError as error:
            self._start(key, self._retry_later(key, error))
            return
        if isinstance(fetched, Fetched):
            self._ready[key] = None
            self._add_records(share_partition, fetched)
        elif fetched is NotFetched.NOT_CACHED:
            self._start(key, self._deliver_cold(key, share_partition))
        else:
            share_partition.add_listener(self)

    async def _deliver_cold(self, key: TopicIdPartition, share_partition: ShareGroupPartition) -> None:
        request = self._request.limited_to(max(self._credit, 1))
        try:
            fetched = await share_partition.acquire_uncached(request, self._max_bytes)
        except KafkaError as error:
            await self._retry_later(key, error)
        else:
            if isinstance(fetched, Fetched):
                self._add_records(share_partition, fetched)

    async def _retry_later(self, key: TopicIdPartition, error: KafkaError) -> None:
        self._queue.add_problem(*key, error)
        await asyncio.sleep(LONGEST_RETRY_DELAY)

    def _add_records(self, share_partition: ShareGroupPartition, fetched: Fetched) -> None:
        self._credit -= fetched.offsets
        size = len(fetched.records)
        self._unsent += size
        self._partitions.unsent_bytes += size
        # Records that failed this often are isolated: their member gets no others beside them.
        if fetched.acquired[0].delivery_count > share_partition.core.settings.throttle_limit:
            self._isolated.add(share_partition.topic_partition)
        self._queue.add_records(share_partition, fetched)

    def _must_finish_first(self, share_partition: ShareGroupPartition) -> bool:
        """Whether the member holds records that are isolated, and gets no others before it finished them.

        In Kafka this follows from clients that fetch only when all records are acknowledged.
        """
        core, key = share_partition.core, share_partition.topic_partition
        throttled = core.in_flight.next_is_throttled(core.settings.throttle_limit)
        if (key in self._isolated or throttled) and core.in_flight.holds(self.holder, self.session):
            self._isolated.add(key)
            return True
        self._isolated.discard(key)
        return False

    # Acknowledgements

    def _apply_acks(self, message: DeliverInput) -> None:
        for group, acks in group_acks(message.acknowledgements).items():
            share_partition = self._served.get(TopicIdPartition(group.topic_id, group.partition))
            if share_partition is None:
                self._queue.add_results(acks, 0.0, relinquished() if self.session else _not_held())
            else:
                self._acknowledge(share_partition, group, acks)
        for ack in message.acknowledgements:
            if ack.type == REJECT and ack.reason:
                _log.info(
                    "record rejected",
                    group=self.group_id,
                    topic_id=ack.topic_id,
                    partition=ack.partition,
                    offset=ack.first_offset,
                    reason=ack.reason[:MAX_REASON],
                )

    def _acknowledge(
        self, share_partition: ShareGroupPartition, group: AckGroup, acks: Sequence[AckRequest]
    ) -> None:
        """Applies all together; if they are rejected, divides them until the rejected records are known."""
        lock = group.lock_ms / 1000 or (self._request.lock if group.renewal else 0.0)
        deadline = share_partition.renewed_deadline(lock) if group.renewal else 0.0
        done = partial(self._complete, share_partition.topic_partition, acks, deadline)
        self._unanswered += 1
        try:
            if group.unseen:
                if group.delay_ms:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "unseen cannot be combined with delay_ms")
                share_partition.handle(UndoAcquire(self.holder, coalesce(acks)))
                done(None)
            else:
                delay = None if group.delay_ms is None else group.delay_ms / 1000
                if delay:
                    share_partition.check_delay(delay * 1000, "delay_ms")
                details = (delay, lock, group.blameless, group.reason)
                share_partition.handle(Acknowledge(self.holder, coalesce(acks), done, *details))
        except KafkaError as error:
            parts = _divide(share_partition, acks) if error.code in _DIVISIBLE else [acks]
            if len(parts) == 1:
                done(error)
                return
            self._unanswered -= 1
            for part in parts:
                self._acknowledge(share_partition, group, part)

    def _complete(
        self, key: TopicIdPartition, acks: Sequence[AckRequest], deadline: float, error: KafkaError | None
    ) -> None:
        self._unanswered -= 1
        self._queue.add_results(acks, deadline, error)
        if key in self._isolated:
            self._advance(key)


def _divide(share_partition: ShareGroupPartition, acks: Sequence[AckRequest]) -> list[Sequence[AckRequest]]:
    """Several acknowledgements in halves; a single one by the runs that it covers."""
    if len(acks) > 1:
        middle = len(acks) // 2
        return [acks[:middle], acks[middle:]]
    (ack,) = acks
    pieces = share_partition.core.in_flight.split_by_run(ack.first, ack.last) if ack.first < ack.last else ()
    return [[ack._replace(first=first, last=last)] for first, last in pieces] or [acks]


def _not_held() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD_STATE, "No record of this partition is held by this stream any more."
    )
