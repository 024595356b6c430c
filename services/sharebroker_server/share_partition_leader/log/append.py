"""Appends record batches of producers to led partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.routing.transaction_check import Claim
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.log.transaction_verification import TransactionalAppends


class LedPartitions(Protocol):
    """Finds the partitions that this process leads."""

    async def led(self, topic_id: str, partition: int) -> LedPartition:
        """The partition, claimed if necessary. Raises KafkaError."""


async def append(
    partitions: LedPartitions, appends: TransactionalAppends, call: AppendCall, timeout: float | None
) -> list[AppendResult]:
    """The result of each part, in order, completed when durable. Raises REQUEST_TIMED_OUT."""
    claim = Claim(call.transactional_id, call.adds_partitions) if call.transactional_id else None
    work = [_append_part(partitions, appends, part, claim) for part in call.parts]
    try:
        async with asyncio.timeout(timeout):
            return [await work[0]] if len(work) == 1 else list(await asyncio.gather(*work))
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.") from None


async def _append_part(
    partitions: LedPartitions, appends: TransactionalAppends, part: AppendPart, claim: Claim | None
) -> AppendResult:
    topic_id, partition, records = part
    try:
        led = await partitions.led(topic_id, partition)
        appended = await _appending(led, appends, records, claim)
    except KafkaError as error:
        return AppendResult(topic_id, partition, error.code, error.message)
    return AppendResult(
        topic_id,
        partition,
        base_offset=appended.base_offset,
        last_offset=appended.last_offset,
        log_append_time=appended.log_append_time,
        log_start_offset=led.log.log_start_offset,
    )


def _appending(
    led: LedPartition, appends: TransactionalAppends, records: bytes, claim: Claim | None
) -> Coroutine[Any, Any, Appended]:
    """The append, inside spans of the traced records if this process traces."""
    work = appends.append(led, records, claim)
    traces = led.traces
    traced = traces.find(records) if traces is not None else ()
    return work if traces is None or not traced else traces.append(traced, work)
