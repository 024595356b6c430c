"""One `Consume` stream: records in, acknowledgements and credit out.

The stream belongs to the client's event loop. `_write` sends one message at a time; everything that
accumulates during a write becomes the next message, so the message size adapts to the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Protocol

from sharebroker.aio.connection import Connection, RunningStream
from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.accumulator import Accumulator, LostOffsets, PendingAckBatch
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.delivery.v1.delivery_pb2 import AcknowledgementResult, AcquireMode, Delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.share_pb2 import ConsumeRequest, ConsumeResponse
from sharebroker_protocol.membership import Partitions
from sharebroker_protocol.records.batches import Decoded, decode
from sharebroker_protocol.records.record import AcknowledgeType, AcquiredRecords, ReleaseDetail, spans

if TYPE_CHECKING:
    import grpc

    from sharebroker_protocol.delivery.v1.delivery_pb2 import Acknowledgement
    from sharebroker_protocol.gateway.v1.share_pb2 import AcknowledgeRequest
    from sharebroker_protocol.records.record import Detail

DURABLE_LOCK_MS: Final = 60_000
"""The shortest lock that outlives its stream: its renewal is stored, so the first one is sent at once."""

_CORRUPT = "the checksum of the batch is wrong"
_LOCK_ENDED = "the lock timed out, or the leader of the partition changed"


class StreamOwner(Protocol):
    """Receives the events of a stream and decides its credit."""

    def credit(self, held: int, outstanding: int) -> int:
        """Returns the credit to send, given the records held and outstanding; negative withdraws credit."""
        ...

    def on_subscribed(self, lock_timeout: float) -> None:
        """Receives the length of the stream's locks, in seconds."""
        ...

    def on_decoded(self, decoded: Decoded) -> None:
        """Receives records."""
        ...

    def on_lock_lost(self, lost: list[LostOffsets], reason: str) -> None:
        """Receives offsets with a lock that the server reported as lost."""
        ...

    def on_ended(self, lost: list[LostOffsets], reason: str) -> None:
        """Receives offsets with a lock that was lost because the stream ended."""
        ...


class ConsumeStream:
    """A stream that runs once. `assignment` may change while it runs."""

    def __init__(self, owner: StreamOwner, accumulator: Accumulator, wake: asyncio.Event) -> None:
        self._owner = owner
        self._accumulator = accumulator
        self._wake = wake
        self._finishing = False
        self._must_react = False
        self._durable_locks = False
        self._sent_assignment: Partitions | None = None
        self.outstanding = 0
        """Unused credit; negative if records arrived after their credit was withdrawn."""
        self.assignment: Partitions = frozenset()
        self.connected = False
        """Whether the server has sent a response."""

    async def run(self, connection: Connection, subscribe: ConsumeRequest.Subscribe) -> None:
        """Runs until the stream ends; raises its KafkaError after failing unconfirmed acknowledgements."""
        self._durable_locks = subscribe.durable_locks
        call = connection.share.Consume(metadata=connection.metadata)
        stream = RunningStream(call, self._write(call, ConsumeRequest(subscribe=subscribe)))
        error: KafkaError | None = None
        try:
            await stream.run(self._handle)
        except KafkaError as failure:
            error = failure
            raise
        finally:
            reason = "the stream was cancelled" if error is None else error.message
            lost = self._accumulator.close(ConnectionLostError(reason))
            if error is not None:
                self._owner.on_ended(lost, f"the stream ended ({reason})")

    def finish(self) -> None:
        """Sends remaining acknowledgements and undoes unseen records; the server then ends the stream."""
        self._finishing = True
        self._wake.set()

    async def _write(
        self, call: grpc.aio.StreamStreamCall[ConsumeRequest, ConsumeResponse], request: ConsumeRequest
    ) -> None:
        """Sends one message at a time; changes during a write go into the next message."""
        await call.write(self._fill(request))
        async for _ in self._wakes():
            finishing = self._finishing
            request = self._fill(ConsumeRequest(rest_unseen=finishing))
            if request.ByteSize() or self._must_react:
                self._must_react = False
                await call.write(request)
            if finishing:
                await call.done_writing()
                return

    async def _wakes(self) -> AsyncIterator[None]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            yield

    def _fill(self, request: ConsumeRequest) -> ConsumeRequest:
        """Adds acknowledgements, a changed assignment and credit to a message."""
        for batch in self._accumulator.drain():
            _add_ack_batch(request, batch)
        if self.assignment != self._sent_assignment:
            self._sent_assignment = self.assignment
            request.assignment.SetInParent()
            for partition in sorted(self.assignment):
                request.assignment.partitions.add(topic_id=partition.topic_id, partition=partition.partition)
        request.credit = self._owner.credit(self._accumulator.unacknowledged, self.outstanding)
        self.outstanding += request.credit
        return request

    def _handle(self, response: ConsumeResponse) -> None:
        self.connected = True
        if response.HasField("subscribed"):
            self._owner.on_subscribed(response.subscribed.acquisition_lock_timeout_ms / 1000)
        if response.lock_lost:
            self._must_react = True  # the leader pauses deliveries until the client sends a message
            self._wake.set()
            lost: list[LostOffsets] = []
            for lock in response.lock_lost:
                offsets = (lock.first_offset, lock.last_offset)
                lost += self._accumulator.note_lock_lost(
                    lock.topic_id, lock.partition, offsets, lock.lock_token
                )
            self._owner.on_lock_lost(lost, _LOCK_ENDED)
        for delivery in response.deliveries:
            self._owner.on_decoded(self._decoded(delivery))
        for result in response.results:
            self._resolve(result)

    def _resolve(self, result: AcknowledgementResult) -> None:
        error = KafkaError(ErrorCode(result.error_code), result.error_message) if result.error_code else None
        offsets = result.first_offset, result.last_offset
        self._accumulator.resolve(result.id, error, result.lock_deadline_ms / 1000, offsets)

    def _decoded(self, delivery: Delivery) -> Decoded:
        topic = (delivery.topic_id, delivery.topic)
        now = asyncio.get_running_loop().time()
        acquisitions = []
        for acquired in delivery.acquired:
            acquisition = AcquiredRecords(
                topic, delivery.partition, (acquired.first_offset, acquired.last_offset), self._accumulator
            )
            acquisition.delivery_count = acquired.delivery_count
            acquisition.token = acquired.lock_token
            acquisition.deadline = acquired.lock_deadline_ms / 1000
            acquisition.since = now
            self.outstanding -= acquisition.unacknowledged
            self._accumulator.add_acquisition(acquisition)
            acquisitions.append(acquisition)
        decoded = decode(delivery.record_batches, acquisitions)
        if self._durable_locks:
            for acquisition, first, last in spans(decoded.records):
                acquisition.durable = True
                self._accumulator.queue_internal(acquisition, (first, last), AcknowledgeType.RENEW)
        for span in decoded.unreadable:
            reason = _CORRUPT if span.kind is AcknowledgeType.REJECT else None
            self._accumulator.queue_internal(span.acquisition, (span.first, span.last), span.kind, reason)
        return decoded


def subscribe_request(group_id: str, member_id: str, config: ConsumerConfig) -> ConsumeRequest.Subscribe:
    """Returns the first message of a consumer's stream."""
    strict = config.share_acquire_mode == "record_limit"
    return ConsumeRequest.Subscribe(
        group_id=group_id,
        member_id=member_id,
        acquire_mode=AcquireMode.ACQUIRE_MODE_RECORD_LIMIT
        if strict
        else AcquireMode.ACQUIRE_MODE_UNSPECIFIED,
        batch_size=config.max_poll_records,
        client_id=config.client_id,
        pause_on_lock_lost=True,
        lock_ms=config.lock_ms,
        durable_locks=config.lock_ms >= DURABLE_LOCK_MS,
    )


def _add_ack_batch(request: ConsumeRequest, batch: PendingAckBatch) -> None:
    acquisition = batch.acquisition
    ack = request.acknowledgements.add(
        id=batch.id,
        topic_id=acquisition.topic_id,
        partition=acquisition.partition,
        first_offset=batch.first,
        type=batch.kind.value,
        lock_token=acquisition.token,
    )
    if batch.last != batch.first:
        ack.last_offset = batch.last
    set_detail(ack, batch.kind, batch.detail)
    if batch.unseen and batch.detail is None:
        ack.unseen = True


def set_detail(
    message: Acknowledgement | AcknowledgeRequest.Decision, kind: AcknowledgeType, detail: Detail
) -> None:
    """Sets the fields of an acknowledgement that depend on its detail."""
    if isinstance(detail, ReleaseDetail):
        message.blameless = detail.blameless
        message.reason = detail.reason
        detail = detail.delay_ms
    if isinstance(detail, str):
        message.reason = detail
    elif detail is not None and kind is AcknowledgeType.RENEW:
        message.lock_ms = detail
    elif detail is not None:
        message.delay_ms = detail
