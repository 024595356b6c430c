"""Applies one acknowledge call: all or nothing per partition, completed when durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AckResult
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.persisted_state import NoStateError
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ack_batching import RENEW
from sharebroker_server.share_partition_leader.requests.ports import SharePartitions

_log = structlog.get_logger()


async def acknowledge(partitions: SharePartitions, call: AcknowledgeCall, timeout: float) -> list[AckResult]:
    """The result of each partition, in the order of the call. Raises REQUEST_TIMED_OUT."""
    results = _Results(call.parts)
    loading = []
    for index, part in enumerate(call.parts):
        share_partition = partitions.loaded(call.group_id, part.topic_id, part.partition)
        if share_partition is None:
            loading.append(asyncio.create_task(_load_and_apply(partitions, call, index, results)))
            continue
        try:
            _check_renewal(call, part)
            share_partition.acknowledge(
                lock_holders.of_member(call.member_id), part.batches, partial(results.add, index), part.delay
            )
        except KafkaError as error:
            results.add(index, error)
    try:
        return await results.all(timeout)
    finally:
        for task in loading:
            task.cancel()


class _Results:
    """Collects the results of all parts with one future."""

    __slots__ = ("_done", "_errors", "_parts", "_remaining")

    def __init__(self, parts: Sequence[AckPart]) -> None:
        self._parts = parts
        self._errors: list[KafkaError | None] = [None] * len(parts)
        self._remaining = len(parts)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, index: int, error: KafkaError | None) -> None:
        """A part's acknowledgements are durable, or were rejected with `error`."""
        self._errors[index] = error
        self._remaining -= 1
        if not self._remaining and not self._done.done():
            self._done.set_result(None)

    async def all(self, timeout: float) -> list[AckResult]:
        """Waits for the last part. Raises REQUEST_TIMED_OUT."""
        if self._remaining:
            # `asyncio.timeout` costs as much as the acknowledgement itself.
            timer = asyncio.get_running_loop().call_later(timeout, self._expire, timeout)
            try:
                await self._done
            finally:
                timer.cancel()
        return [
            AckResult(part.topic_id, part.partition)
            if error is None
            else AckResult(part.topic_id, part.partition, error.code, error.message)
            for part, error in zip(self._parts, self._errors, strict=True)
        ]

    def _expire(self, timeout: float) -> None:
        if not self._done.done():
            error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.")
            self._done.set_exception(error)


async def _load_and_apply(
    partitions: SharePartitions, call: AcknowledgeCall, index: int, results: _Results
) -> None:
    part = call.parts[index]
    share_partition: ShareGroupPartition
    try:
        share_partition = await partitions.share_partition(call.group_id, part.topic_id, part.partition)
        _check_renewal(call, part)
        share_partition.acknowledge(
            lock_holders.of_member(call.member_id), part.batches, partial(results.add, index), part.delay
        )
    except NoStateError as error:  # retriable for a fetch; records of a missing state were never acquired
        results.add(index, KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message))
    except KafkaError as error:
        results.add(index, error)
    except Exception:
        _log.exception("share-partition load failed", group=call.group_id, topic_id=part.topic_id)
        results.add(index, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def _check_renewal(call: AcknowledgeCall, part: AckPart) -> None:
    if not call.renew_allowed and any(RENEW in batch.types for batch in part.batches):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RENEW is not allowed by this request.")
