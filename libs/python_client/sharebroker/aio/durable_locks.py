"""Acknowledges records whose durable locks outlived the stream that acquired them, by unary calls.

The next stream has other acquisitions. These records are held by the member, so that a unary call of the
member renews and acknowledges them by their lock token, whichever leader their partition has by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sharebroker.aio.connection import Connection, call
from sharebroker.aio.stream import set_detail
from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.accumulator import Accumulator, LostOffsets, PendingAckBatch
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.share_pb2 import AcknowledgeRequest
from sharebroker_protocol.records.record import AcknowledgeType

if TYPE_CHECKING:
    from sharebroker_protocol.gateway.v1.share_pb2 import AcknowledgeResponse

_PARTS_PER_CALL: Final = 500
_LOST: Final = "the lock ended, or the leader of the partition changed before it was stored"
_APPLIED: Final = "the record is not held any more; the acknowledgement may have been applied before"


class _Part(NamedTuple):
    """Offsets of an ack batch, which a call acknowledges together; `last` is inclusive."""

    batch: PendingAckBatch
    first: int
    last: int

    @property
    def offsets(self) -> tuple[int, int]:
        return self.first, self.last

    def halves(self) -> list[_Part]:
        middle = (self.first + self.last) // 2
        return [_Part(self.batch, self.first, middle), _Part(self.batch, middle + 1, self.last)]


class DurableLocks:
    """Sends what `accumulator` collects; `report_lost` receives the records that are not held any more."""

    def __init__(
        self,
        connection: Connection,
        member: tuple[str, str],
        config: ConsumerConfig,
        accumulator: Accumulator,
        report_lost: Callable[[list[LostOffsets], str], None],
    ) -> None:
        """`member` is (group id, member id)."""
        self._connection = connection
        self._group_id, self._member_id = member
        self._config = config
        self._accumulator = accumulator
        self._report_lost = report_lost
        self._lost: list[LostOffsets] = []
        self._repeated: list[_Part] = []

    async def run(self, wake: asyncio.Event) -> None:
        """Sends acknowledgements whenever `wake` is set, until cancelled.

        Repeats those that fail, with back-off, until each has an outcome or its lock has ended.
        """
        first_wait, max_wait = self._config.retry_backoff_ms / 1000, self._config.retry_backoff_max_ms / 1000
        wait = first_wait
        while True:
            if self._repeated:
                await asyncio.sleep(wait)
                wait = min(wait * 2, max_wait)
            else:
                await wake.wait()
                wait = first_wait
            wake.clear()
            parts, self._repeated = self._repeated, []
            parts += [_Part(batch, batch.first, batch.last) for batch in self._accumulator.drain()]
            while parts:
                parts = [*await self._send(parts[:_PARTS_PER_CALL]), *parts[_PARTS_PER_CALL:]]
            lost, self._lost = self._lost, []
            if lost:
                self._report_lost(lost, _LOST)

    async def _send(self, parts: Sequence[_Part]) -> list[_Part]:
        """Acknowledges parts in one call, and in one each after an error that a single one may cause.

        Returns smaller parts of those that the server rejected, to send now.
        """
        smaller: list[_Part] = []
        try:
            response = await self._call(parts)
        except KafkaError as error:
            if len(parts) > 1 and not _may_succeed(error):
                for part in parts:
                    smaller += await self._send([part])
                return smaller
            for part in parts:
                smaller += self._failed(part, error)
            return smaller
        for part, result in zip(parts, response.results, strict=True):
            if result.error_code:
                rejection = KafkaError(ErrorCode(result.error_code), result.error_message)
                smaller += self._failed(part, rejection)
            else:
                deadline = result.lock_deadline_ms / 1000
                self._accumulator.resolve(part.batch.id, None, deadline, part.offsets)
        return smaller

    async def _call(self, parts: Sequence[_Part]) -> AcknowledgeResponse:
        request = AcknowledgeRequest(group_id=self._group_id, member_id=self._member_id)
        for part in parts:
            _add_decision(request, part, self._config.lock_ms)
        method, metadata = self._connection.share.Acknowledge, self._connection.metadata
        return await call(method, request, self._config.request_timeout_ms / 1000, metadata)

    def _failed(self, part: _Part, error: KafkaError) -> list[_Part]:
        """Completes a part that failed, or repeats it later; returns its halves if one may succeed now."""
        if error.code is ErrorCode.INVALID_RECORD_STATE and part.first < part.last:
            return part.halves()
        if _may_succeed(error) and part.batch.acquisition.deadline_of(part.first) > clock.now():
            part.batch.resent = True
            self._repeated.append(part)
        else:
            self._reject(part, error)
        return []

    def _reject(self, part: _Part, error: KafkaError) -> None:
        batch, acquired = part.batch, part.batch.acquisition
        is_lost = error.code is ErrorCode.INVALID_RECORD_STATE
        if is_lost and batch.resent and batch.kind is not AcknowledgeType.RENEW:
            error = ConnectionLostError(_APPLIED)
        self._accumulator.resolve(batch.id, error, 0.0, part.offsets)
        if is_lost and batch.kind is AcknowledgeType.RENEW:
            self._lost += self._accumulator.note_lock_lost(
                acquired.topic_id, acquired.partition, part.offsets, acquired.token
            )


def _may_succeed(error: KafkaError) -> bool:
    """Whether a repeated call may succeed; a topic that does not exist was deleted."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    return error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def _add_decision(request: AcknowledgeRequest, part: _Part, lock_ms: int) -> None:
    batch = part.batch
    decision = request.acknowledgements.add(
        topic=batch.acquisition.topic,
        partition=batch.acquisition.partition,
        offset=part.first,
        last_offset=part.last,
        lock_token=batch.acquisition.token,
        type=batch.kind.value,
        lock_ms=lock_ms if batch.kind is AcknowledgeType.RENEW else 0,
    )
    set_detail(decision, batch.kind, batch.detail)
    if batch.unseen:
        decision.blameless = True
