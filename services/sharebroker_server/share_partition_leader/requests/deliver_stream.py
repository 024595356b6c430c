"""One Deliver stream: records as credit allows, and the results of what the member acknowledges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import structlog

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquireMode, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.aio.backoff import doubling
from sharebroker_server.share_partition_leader.config import (
    DEFAULT_BATCH_SIZE,
    LONGEST_RETRY_DELAY,
    REASON_LENGTH,
    RETRY_DELAY,
)
from sharebroker_server.share_partition_leader.core.values import AcquireRequest, LostLock
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched, NotFetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ack_batching import Asked, Group, batches_of, gathered
from sharebroker_server.share_partition_leader.requests.send_queue import Outbox

_log = structlog.get_logger()

REJECT: Final = delivery.ACKNOWLEDGE_TYPE_REJECT
_DIVISIBLE: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Refusals that may be about some records only of those that were named."""


class Partitions(Protocol):
    """Where a stream finds the share-partitions that this process leads."""

    def loaded(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition | None:
        """The share-partition if it is led, loaded and not retired; until the next `await` at least."""

    async def share_partition(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        """The share-partition, loaded and not retired. Raises KafkaError."""


class DeliverySession:
    """A member's stream. Records flow while there is credit; everything runs on the loop's thread.

    A partition has at most one task at a time: it is loaded, read from the store, or tried again later.
    Without a task it is ready to be asked for records, or waits to be woken.
    """

    def __init__(self, opened: pb.DeliverRequest.Open, partitions: Partitions) -> None:
        self.group_id = opened.group_id
        self.holder = lock_holders.of_new_stream(opened.member_id)
        self._request = AcquireRequest(
            self.holder, 0, opened.batch_size or DEFAULT_BATCH_SIZE, AcquireMode(opened.acquire_mode)
        )
        self._partitions = partitions
        self._wanted: set[TopicIdPartition] = set()
        self._served: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._ready: dict[TopicIdPartition, None] = {}
        self._tasks: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._alone: set[TopicIdPartition] = set()
        self._credit = 0
        self._scheduled = False
        self._unanswered = 0
        self._rest_unseen = False
        self._pauses = opened.pause_on_lock_lost
        self._paused = False
        self._out = Outbox()

    # The stream

    async def read(self, requests: AsyncIterator[pb.DeliverRequest]) -> None:
        """Takes the client's messages until it sends no more; then nothing more is delivered."""
        async for request in requests:
            self.take(request)
            await self._out.drained()
        self._want(())

    def take(self, request: pb.DeliverRequest) -> None:
        """Applies one message: acknowledgements first, since they make room for records."""
        if request.acknowledgements:
            self._take_acknowledgements(request.acknowledgements)
        if request.HasField("partitions"):
            self._want(TopicIdPartition(p.topic_id, p.partition) for p in request.partitions.partitions)
        self._rest_unseen |= request.rest_unseen
        self._paused &= not request.resume
        self._credit += request.credit
        self._schedule()

    async def responses(self, reader: asyncio.Task[None]) -> AsyncIterator[pb.DeliverResponse]:
        """What to send, until the client's side has ended and everything it asked for is answered."""
        reader.add_done_callback(lambda _: self._out.filled.set())
        while self._out.entries or self._unanswered or not reader.done():
            await self._out.filled.wait()
            self._out.filled.clear()
            if self._out.entries:
                message = self._out.take()
                self._schedule()
                yield message
        reader.result()

    def close(self) -> None:
        """Ends the stream: what the member holds here is released."""
        self._want(())
        for task in self._tasks.values():
            task.cancel()
        for share_partition in self._served.values():
            share_partition.leave(self, undo=self._rest_unseen)
        self._served.clear()

    # What share-partitions tell

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available in a share-partition that had none."""
        self._go_on(_key(share_partition))

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this stream ran out, or was lost with the share-partition."""
        self._paused = self._pauses
        self._out.add_lost_lock(share_partition, lost)

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition is no longer led here, or must be loaded again; its locks are lost."""
        key = _key(share_partition)
        del self._served[key]
        self._ready.pop(key, None)
        self._alone.discard(key)
        if key in self._tasks:
            self._tasks[key].cancel()
        self._go_on(key)

    # Partitions

    def _want(self, keys: Iterable[TopicIdPartition]) -> None:
        """Deliver from these from here on. What is held of others stays held."""
        self._wanted = set(keys)
        self._ready = {key: None for key in self._ready if key in self._wanted}
        for key in self._wanted:
            self._go_on(key)

    def _go_on(self, key: TopicIdPartition) -> None:
        if key not in self._wanted or key in self._tasks:
            return
        if key in self._served:
            self._ready[key] = None
            self._schedule()
        else:
            self._start(key, self._load(key))

    def _start(self, key: TopicIdPartition, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(partial(self._ended, key))

    def _ended(self, key: TopicIdPartition, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled() and task.exception() is not None:
            _log.error("delivery failed", group=self.group_id, key=key, exc_info=task.exception())
            self._give_up(key, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        self._go_on(key)

    async def _load(self, key: TopicIdPartition) -> None:
        pauses = doubling(RETRY_DELAY, LONGEST_RETRY_DELAY)
        while key in self._wanted:
            try:
                share_partition = await self._partitions.share_partition(self.group_id, *key)
            except KafkaError as error:
                if not error.retriable:
                    self._give_up(key, error)
                    return
                pause = next(pauses)
                # The first time it may just be on its way to this process.
                if pause > RETRY_DELAY:
                    self._out.add_problem(*key, error)
                await asyncio.sleep(pause)
            else:
                self._served[key] = share_partition
                share_partition.join(self)
                return

    def _give_up(self, key: TopicIdPartition, error: KafkaError) -> None:
        """Nothing more is tried until the client names the partition again."""
        self._wanted.discard(key)
        self._out.add_problem(*key, error)

    # Records

    def _schedule(self) -> None:
        if not self._scheduled and self._credit > 0 and self._ready and not self._paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hands out records, partition by partition in turn, while credit and room in the message last."""
        self._scheduled = False
        while self._credit > 0 and self._ready and not self._paused and not self._out.full:
            key = next(iter(self._ready))
            del self._ready[key]
            self._deliver_from(key, self._served[key])

    def _deliver_from(self, key: TopicIdPartition, share_partition: ShareGroupPartition) -> None:
        if self._must_finish_first(key, share_partition):
            share_partition.add_listener(self)
            return
        try:
            acquired = share_partition.acquire(self._request._replace(max_records=self._credit))
        except KafkaError as error:
            self._start(key, self._try_later(key, error))
            return
        if isinstance(acquired, Fetched):
            self._ready[key] = None
            self._hand_out(share_partition, acquired)
        elif acquired is NotFetched.NOT_CACHED:
            self._start(key, self._deliver_cold(key, share_partition))
        else:
            share_partition.add_listener(self)

    async def _deliver_cold(self, key: TopicIdPartition, share_partition: ShareGroupPartition) -> None:
        request = self._request._replace(max_records=max(self._credit, 1))
        try:
            acquired = await share_partition.acquire_uncached(request)
        except KafkaError as error:
            await self._try_later(key, error)
        else:
            if isinstance(acquired, Fetched):
                self._hand_out(share_partition, acquired)

    async def _try_later(self, key: TopicIdPartition, error: KafkaError) -> None:
        self._out.add_problem(*key, error)
        await asyncio.sleep(LONGEST_RETRY_DELAY)

    def _hand_out(self, share_partition: ShareGroupPartition, acquisition: Fetched) -> None:
        self._credit -= acquisition.offsets
        if share_partition.is_throttled(acquisition):
            self._alone.add(_key(share_partition))
        self._out.add_records(share_partition, acquisition)

    def _must_finish_first(self, key: TopicIdPartition, share_partition: ShareGroupPartition) -> bool:
        """Whether the member has records in hand beside which it gets no others.

        Those that failed often are worked on alone: who dies of a record must not cost others their last
        attempt. In Kafka this follows from clients that fetch again only when all is acknowledged.
        """
        core = share_partition.core
        if (key in self._alone or core.next_is_throttled()) and core.holds(self.holder):
            self._alone.add(key)
            return True
        self._alone.discard(key)
        return False

    # Acknowledgements

    def _take_acknowledgements(self, acknowledgements: Sequence[delivery.Acknowledgement]) -> None:
        for group, asked in gathered(acknowledgements).items():
            share_partition = self._served.get(TopicIdPartition(group.topic_id, group.partition))
            if share_partition is None:
                self._out.add_results(asked, 0.0, _not_held())
            else:
                self._acknowledge(share_partition, group, asked)
        for said in acknowledgements:
            if said.type == REJECT and said.reason:
                self._note_reason(said)

    def _acknowledge(
        self, share_partition: ShareGroupPartition, group: Group, asked: Sequence[Asked]
    ) -> None:
        """Applies all at once; where that is refused, divides until it is clear which records are."""
        deadline = share_partition.renewed_deadline() if group.renewal else 0.0
        done = partial(self._answer, TopicIdPartition(group.topic_id, group.partition), asked, deadline)
        self._unanswered += 1
        try:
            if group.unseen:
                _give_back(share_partition, self.holder, group, asked)
                done(None)
            else:
                share_partition.acknowledge(self.holder, batches_of(asked), done, group.delay_ms / 1000)
        except KafkaError as error:
            parts = _parts(share_partition, asked) if error.code in _DIVISIBLE else [asked]
            if len(parts) == 1:
                done(error)
                return
            self._unanswered -= 1
            for part in parts:
                self._acknowledge(share_partition, group, part)

    def _answer(
        self, key: TopicIdPartition, asked: Sequence[Asked], deadline: float, error: KafkaError | None
    ) -> None:
        self._unanswered -= 1
        self._out.add_results(asked, deadline, error)
        if key in self._alone:
            self._go_on(key)

    def _note_reason(self, said: delivery.Acknowledgement) -> None:
        _log.info(
            "record rejected",
            group=self.group_id,
            topic_id=said.topic_id,
            partition=said.partition,
            offset=said.first_offset,
            reason=said.reason[:REASON_LENGTH],
        )


def _key(share_partition: ShareGroupPartition) -> TopicIdPartition:
    return TopicIdPartition(share_partition.topic_id, share_partition.partition)


def _give_back(
    share_partition: ShareGroupPartition, holder: str, group: Group, asked: Sequence[Asked]
) -> None:
    if group.delay_ms:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "unseen: not together with delay_ms")
    share_partition.undo_acquire(holder, batches_of(asked))


def _parts(share_partition: ShareGroupPartition, asked: Sequence[Asked]) -> list[Sequence[Asked]]:
    """Several acknowledgements in halves, one by the runs it covers."""
    if len(asked) > 1:
        middle = len(asked) // 2
        return [asked[:middle], asked[middle:]]
    (one,) = asked
    pieces = share_partition.core.split_by_run(one.first, one.last) if one.first < one.last else ()
    return [[one._replace(first=first, last=last)] for first, last in pieces] or [asked]


def _not_held() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD_STATE, "No record of this partition is held by this stream any more."
    )
