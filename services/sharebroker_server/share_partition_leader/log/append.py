"""Appends record batches of producers to led partitions.

The first batch of a transaction waits for the transaction coordinator, which confirms that the partition
belongs to the transaction. A transaction is verified once per partition.

Most calls have batches that are validated at once, for partitions that are open. Their appends are queued in
one step, in the order of the call, without a task for each. The first part that has to wait, and those after
it, are appended in tasks.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import BatchHeader
from sharebroker_server.record_log.core.producers import UnverifiedError, Verified
from sharebroker_server.record_log.lifecycle import not_leader
from sharebroker_server.record_log.record_headers import RecordHeaders
from sharebroker_server.record_log.validation_queue import CallValidation, ValidationQueue
from sharebroker_server.routing.transaction_check import Claim, TransactionCheck
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition

_TRIES: Final = 3
"""A marker that is appended between verification and append requires another verification."""

PARTS_AT_ONCE: Final = 500
"""The number of partitions of one call that are appended to at the same time."""


class _Begun(NamedTuple):
    """An append that is queued, and its outcome."""

    led: LedPartition
    part: AppendPart
    appended: asyncio.Future[Appended]


class Appends:
    """Appends to the partitions that this process leads."""

    def __init__(self, leadership: Leadership, check: TransactionCheck) -> None:
        self._leadership = leadership
        self._check = check
        self._queue = ValidationQueue()

    async def append(self, call: AppendCall, timeout: float | None) -> list[AppendResult]:
        """The result of each part, in order, completed when durable. Raises REQUEST_TIMED_OUT."""
        claim = Claim(call.transactional_id, call.adds_partitions) if call.transactional_id else None
        begun = self._begin_all(call) if claim is None else []
        try:
            async with asyncio.timeout(timeout):
                later = await self._append_rest(call, len(begun), claim)
                return [await _outcome(each) for each in begun] + later
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.") from None
        finally:
            _abandon(begun)

    def _begin_all(self, call: AppendCall) -> list[_Begun | AppendResult]:
        """Validates and queues the parts before the first one that has to wait; returns those parts."""
        begun: list[_Begun | AppendResult] = []
        for part in call.parts[:PARTS_AT_ONCE]:
            each: _Begun | AppendResult | None
            try:
                each = self._begin(part, call.duplicate_offsets)
            except KafkaError as error:
                each = _failed(part, error)
            if each is None:
                break
            begun.append(each)
        return begun

    def _begin(self, part: AppendPart, duplicate_offsets: bool) -> _Begun | None:
        """Returns the queued append of a part; None if it has to wait first, or may be traced.

        Raises KafkaError: the part is invalid, or cannot be queued.
        """
        topic_id, partition, records = part
        led = self._leadership.known(topic_id, partition)
        if led is None or led.traces is not None:
            return None
        log = led.own_log
        settings = log.settings
        values = settings.record_headers()
        headers = self._queue.validate_now(settings, records, log.now_ms, values)
        if headers is None:
            return None
        appended = log.begin_append(records, headers, values, duplicate_offsets=duplicate_offsets)
        return _Begun(led, part, appended)

    async def _append_rest(self, call: AppendCall, first: int, claim: Claim | None) -> list[AppendResult]:
        """Appends the parts from the one with index `first` on."""
        parts = call.parts[first:]
        if not parts:
            return []
        validation = CallValidation(self._queue)
        if len(parts) == 1:
            return [await self._append_part(parts[0], call, claim, validation)]
        return await gather_in_portions(
            lambda part: self._append_part(part, call, claim, validation), parts, PARTS_AT_ONCE
        )

    async def _append_part(
        self, part: AppendPart, call: AppendCall, claim: Claim | None, validation: CallValidation
    ) -> AppendResult:
        topic_id, partition, records = part
        try:
            led = await self._leadership.led(topic_id, partition)
            log = led.own_log
            settings = log.settings
            values = settings.record_headers()
            headers = await validation.headers(settings, records, log.now_ms, values)
            work = self._append(led, records, headers, claim, values, call.duplicate_offsets)
            appended = await led.traced(records, work)
        except KafkaError as error:
            return _failed(part, error)
        return _succeeded(part, led, appended)

    async def _append(
        self,
        led: LedPartition,
        data: bytes,
        headers: list[BatchHeader],
        claim: Claim | None,
        values: RecordHeaders | None,
        duplicate_offsets: bool,
    ) -> Appended:
        """Appends a producer's batches; `claim` names the transaction.

        Raises KafkaError: as `PartitionLog.append` and `TransactionCheck.confirm` do.
        """
        if claim is None:
            try:
                return await led.own_log.append(
                    data, None, headers, values, duplicate_offsets=duplicate_offsets
                )
            except UnverifiedError as error:
                raise _without_id() from error
        refusal: KafkaError = UnverifiedError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            verified = await self._verified(led, headers[0], claim)
            try:
                return await led.own_log.append(data, verified, headers, values)
            except UnverifiedError as error:
                refusal = error
        raise refusal

    async def _verified(self, led: LedPartition, header: BatchHeader, claim: Claim) -> Verified | None:
        """Returns the verification; None if none is needed. Waiting appends continue in their order."""
        if not header.transactional or led.log.transactions.is_open(header):
            return None
        key = (header.producer_id, header.producer_epoch)
        task = led.verifications.get(key)
        if task is None:
            task = led.verifications[key] = asyncio.create_task(self._verify(led, header, claim))
            task.add_done_callback(partial(_forget, led, key))
        await asyncio.wait([task])  # not cancelled with this caller: other appends may wait for it
        if task.cancelled():
            raise not_leader(led.log.partition)
        return task.result()

    async def _verify(self, led: LedPartition, header: BatchHeader, claim: Claim) -> Verified:
        verified = Verified(led.own_log.log_end_offset, renews_epoch=claim.adds)
        await self._check.confirm(claim, header.producer_id, header.producer_epoch, led.log.partition)
        return verified


async def _outcome(begun: _Begun | AppendResult) -> AppendResult:
    """Returns the result of a part once it is durable or failed."""
    if isinstance(begun, AppendResult):
        return begun
    led, part, appended = begun
    # The error's traceback refers to this frame: a cycle would keep the records of rejected requests.
    del begun
    try:
        return _succeeded(part, led, await appended)
    except UnverifiedError:
        return _failed(part, _without_id())
    except KafkaError as error:
        return _failed(part, error)
    finally:
        del appended


def _abandon(begun: list[_Begun | AppendResult]) -> None:
    """Ends the interest in outcomes that nothing awaits any longer, after a failure of the call."""
    for each in begun:
        if isinstance(each, _Begun) and not each.appended.cancel() and not each.appended.cancelled():
            each.appended.exception()  # retrieved: asyncio would log it otherwise


def _succeeded(part: AppendPart, led: LedPartition, appended: Appended) -> AppendResult:
    return AppendResult(
        part.topic_id,
        part.partition,
        base_offset=appended.base_offset,
        last_offset=appended.last_offset,
        log_append_time=appended.log_append_time,
        log_start_offset=led.log.log_start_offset,
        offsets=appended.offsets,
    )


def _failed(part: AppendPart, error: KafkaError) -> AppendResult:
    return AppendResult(part.topic_id, part.partition, error.code, error.message)


def _without_id() -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "The batch belongs to a transaction, the request names no transactional id.",
    )


def _forget(led: LedPartition, key: tuple[int, int], task: asyncio.Task[Verified]) -> None:
    del led.verifications[key]
    if not task.cancelled():
        task.exception()  # retrieved even if the caller was cancelled
