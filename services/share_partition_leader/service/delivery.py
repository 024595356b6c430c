"""One Deliver stream: records as credit allows, and the results of what the member acknowledges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

import structlog

from services.share_partition_leader.config import (
    DEFAULT_BATCH_SIZE,
    LONGEST_RETRY_DELAY,
    MESSAGE_BYTES,
    RETRY_DELAY,
    UNSENT_RESULTS,
)
from services.share_partition_leader.core.values import AckBatch, AcquireMode, AcquireRequest, LostLock
from services.share_partition_leader.service.share_group_partition import (
    Acquisition,
    Nothing,
    ShareGroupPartition,
)
from sharebroker.delivery.v1 import delivery_pb2 as delivery
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

_log = structlog.get_logger()
_streams: Final = count(1)


class Key(NamedTuple):
    """A partition of a topic."""

    topic_id: str
    partition: int


class Partitions(Protocol):
    """Where a stream finds the share-partitions that this process leads."""

    async def share_partition(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        """The share-partition, loaded. Raises KafkaError."""


class DeliverySession:
    """A member's stream. Records flow while there is credit.

    What happens in one turn of the loop leaves in one message; everything runs on the loop's thread.
    """

    def __init__(self, opened: pb.DeliverRequest.Open, partitions: Partitions) -> None:
        self.group_id = opened.group_id
        # A member that opens a second stream before the first one's end is noticed must not lose its new
        # records to the release of the old ones.
        self.holder = f"{opened.member_id}@{next(_streams)}"
        self._request = AcquireRequest(
            self.holder, 0, opened.batch_size or DEFAULT_BATCH_SIZE, AcquireMode(opened.acquire_mode)
        )
        self._partitions = partitions
        self._served: dict[Key, ShareGroupPartition] = {}
        self._wanted: set[Key] = set()
        self._ready: dict[Key, None] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._credit = 0
        self._scheduled = False
        self._out = pb.DeliverResponse()
        self._out_bytes = 0
        self._unsent = 0
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    async def read(self, requests: AsyncIterator[pb.DeliverRequest]) -> None:
        """Takes the client's messages until it sends no more."""
        async for request in requests:
            self.take(request)
            await self._drained.wait()

    def take(self, request: pb.DeliverRequest) -> None:
        """Applies one message: acknowledgements first, since they make room for records."""
        for acknowledgement in request.acknowledgements:
            self._acknowledge(acknowledgement)
        if request.HasField("partitions"):
            self._serve(Key(p.topic_id, p.partition) for p in request.partitions.partitions)
        if request.credit:
            self._credit += request.credit
            self._schedule()

    async def responses(self, reader: asyncio.Task[None]) -> AsyncIterator[pb.DeliverResponse]:
        """What to send, until the client's side has ended and everything it asked for is answered."""
        reader.add_done_callback(lambda _: self._wake.set())
        while not reader.done() or self._unsent:
            await self._wake.wait()
            self._wake.clear()
            if self._unsent:
                out, self._out = self._out, pb.DeliverResponse()
                self._out_bytes = self._unsent = 0
                self._drained.set()
                self._schedule()
                yield out
        reader.result()

    def close(self) -> None:
        """Ends the stream: what the member holds here is released."""
        self._wanted.clear()
        self._ready.clear()
        for task in self._tasks.values():
            task.cancel()
        for share_partition in self._served.values():
            share_partition.leave(self)
        self._served.clear()

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this stream ran out, or was lost with the share-partition."""
        self._out.lock_lost.add(
            topic_id=share_partition.topic_id,
            partition=share_partition.partition,
            first_offset=lost.first,
            last_offset=lost.last,
            lock_token=lost.token,
        )
        self._send()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition is no longer led here, or must be loaded again; its locks are lost."""
        key = Key(share_partition.topic_id, share_partition.partition)
        self._served.pop(key, None)
        self._ready.pop(key, None)
        if key in self._wanted:
            self._open(key)

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available in a share-partition that had none."""
        key = Key(share_partition.topic_id, share_partition.partition)
        if key in self._wanted:
            self._ready[key] = None
            self._schedule()

    def _serve(self, keys: Iterable[Key]) -> None:
        self._wanted = set(keys)
        for key in [key for key in self._ready if key not in self._wanted]:
            del self._ready[key]
        for key in self._wanted:
            if key in self._served:
                self._ready[key] = None
            elif key not in self._tasks:
                self._open(key)
        self._schedule()

    def _open(self, key: Key) -> None:
        self._start(key, self._load(key))

    def _start(self, key: Key, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if task.cancelled():
            return
        if task.exception() is not None:
            _log.error("delivery failed", group=self.group_id, key=key, exc_info=task.exception())
        if key in self._served:
            self.look_again(self._served[key])

    async def _load(self, key: Key) -> None:
        delay = RETRY_DELAY
        while key in self._wanted:
            try:
                share_partition = await self._partitions.share_partition(self.group_id, *key)
            except KafkaError as error:
                if not error.retriable or delay > RETRY_DELAY:
                    self._report(key, error)
                if not error.retriable:
                    return
                await asyncio.sleep(delay)
                delay = min(delay * 2, LONGEST_RETRY_DELAY)
            else:
                self._served[key] = share_partition
                share_partition.join(self)
                return

    def _report(self, key: Key, error: KafkaError) -> None:
        self._out.problems.add(
            topic_id=key.topic_id,
            partition=key.partition,
            error_code=int(error.code),
            error_message=error.message,
        )
        self._send()

    def _schedule(self) -> None:
        if not self._scheduled and self._credit > 0 and self._ready:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hands out records, partition by partition in turn, while credit and room in the message last."""
        self._scheduled = False
        while self._credit > 0 and self._ready and self._out_bytes < MESSAGE_BYTES:
            key = next(iter(self._ready))
            del self._ready[key]
            share_partition = self._served[key]
            acquired = share_partition.acquire(self._request._replace(max_records=self._credit))
            if isinstance(acquired, Acquisition):
                self._ready[key] = None
                self._hand_out(share_partition, acquired)
            elif acquired is Nothing.COLD:
                if key not in self._tasks:
                    self._start(key, self._warm(key, share_partition))
            else:
                share_partition.wait(self)

    async def _warm(self, key: Key, share_partition: ShareGroupPartition) -> None:
        try:
            acquired = await share_partition.acquire_cold(
                self._request._replace(max_records=max(self._credit, 1))
            )
        except KafkaError as error:
            self._report(key, error)
            await asyncio.sleep(LONGEST_RETRY_DELAY)
        else:
            if acquired is not None:
                self._hand_out(share_partition, acquired)

    def _hand_out(self, share_partition: ShareGroupPartition, acquisition: Acquisition) -> None:
        sent = self._out.deliveries.add(
            topic_id=share_partition.topic_id,
            topic=share_partition.topic,
            partition=share_partition.partition,
            record_batches=acquisition.records,
        )
        add_acquired(sent.acquired, acquisition)
        self._credit -= acquisition.offsets
        self._out_bytes += len(acquisition.records)
        self._send()

    def _acknowledge(self, asked: delivery.Acknowledgement) -> None:
        last = asked.last_offset if asked.HasField("last_offset") else asked.first_offset
        share_partition = self._served.get(Key(asked.topic_id, asked.partition))
        if share_partition is None:
            error = KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "No record of this partition is held by this stream any more."
            )
            self._result(asked.id, asked.first_offset, last, error, 0.0)
            return
        if asked.reason:
            _log.info(
                "record rejected",
                group=self.group_id,
                topic=share_partition.topic,
                partition=asked.partition,
                offset=asked.first_offset,
                reason=asked.reason,
            )
        self._acknowledge_run(share_partition, asked, asked.first_offset, last)

    def _acknowledge_run(
        self, share_partition: ShareGroupPartition, asked: delivery.Acknowledgement, first: int, last: int
    ) -> None:
        """A run that cannot be applied as a whole is applied record by record: each has its own result."""
        batch = AckBatch(first, last, (asked.type,), asked.lock_token or None)
        deadline = (
            share_partition.renewed_deadline() if asked.type == delivery.ACKNOWLEDGE_TYPE_RENEW else 0.0
        )
        try:
            share_partition.acknowledge(
                self.holder,
                (batch,),
                lambda error: self._result(asked.id, first, last, error, deadline),
            )
        except KafkaError as error:
            if first >= last or error.code is not ErrorCode.INVALID_RECORD_STATE:
                self._result(asked.id, first, last, error, 0.0)
            else:
                for offset in range(first, last + 1):
                    self._acknowledge_run(share_partition, asked, offset, offset)

    def _result(self, ack_id: int, first: int, last: int, error: KafkaError | None, deadline: float) -> None:
        result = self._out.results.add(id=ack_id, first_offset=first, last_offset=last)
        if error is not None:
            result.error_code = int(error.code)  # type: ignore[assignment]  # the enum's numbers are Kafka's
            result.error_message = error.message
        elif deadline:
            result.lock_deadline_ms = round(deadline * 1000)
        self._send()

    def _send(self) -> None:
        self._unsent += 1
        if self._unsent >= UNSENT_RESULTS:
            self._drained.clear()
        self._wake.set()


def add_acquired(target: Any, acquisition: Acquisition) -> None:
    """Writes acquired runs into a repeated field of AcquiredRecords."""
    for run in acquisition.acquired:
        target.add(
            first_offset=run.first,
            last_offset=run.last,
            delivery_count=run.delivery_count,
            lock_token=run.token,
            lock_deadline_ms=round(run.deadline * 1000),
        )
