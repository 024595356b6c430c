"""One acknowledge call: all or nothing for each partition, answered when durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_calls.values import AcknowledgeCall, Acknowledged, AckPart
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.persisted_state import NoStateError
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ack_batching import RENEW
from sharebroker_server.share_partition_leader.requests.deliver_stream import Partitions

_log = structlog.get_logger()


async def acknowledge(partitions: Partitions, call: AcknowledgeCall, timeout: float) -> list[Acknowledged]:
    """The result of each partition, in the order of the call. Raises REQUEST_TIMED_OUT."""
    results = Results(call.parts)
    loading = []
    for index, part in enumerate(call.parts):
        share_partition = partitions.loaded(call.group_id, part.topic_id, part.partition)
        if share_partition is None:
            loading.append(asyncio.create_task(_load(partitions, call, index, results)))
        else:
            _apply(share_partition, call, index, results)
    try:
        return await results.all(timeout)
    finally:
        for task in loading:
            task.cancel()


class Results:
    """Gathers the results of the parts; one future for all of them."""

    __slots__ = ("_done", "_errors", "_left", "_parts")

    def __init__(self, parts: Sequence[AckPart]) -> None:
        self._parts = parts
        self._errors: list[KafkaError | None] = [None] * len(parts)
        self._left = len(parts)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(self, index: int, error: KafkaError | None) -> None:
        """A part's acknowledgements are durable, or not taken."""
        self._errors[index] = error
        self._left -= 1
        if not self._left and not self._done.done():
            self._done.set_result(None)

    async def all(self, timeout: float) -> list[Acknowledged]:
        """Waits for the last one. Raises REQUEST_TIMED_OUT."""
        if self._left:
            # A timer of our own: a timeout of asyncio costs as much as what it is for.
            timer = asyncio.get_running_loop().call_later(timeout, self._give_up, timeout)
            try:
                await self._done
            finally:
                timer.cancel()
        return [
            Acknowledged(part.topic_id, part.partition)
            if error is None
            else Acknowledged(part.topic_id, part.partition, error.code, error.message)
            for part, error in zip(self._parts, self._errors, strict=True)
        ]

    def _give_up(self, timeout: float) -> None:
        if not self._done.done():
            late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No answer within {timeout} s.")
            self._done.set_exception(late)


async def _load(partitions: Partitions, call: AcknowledgeCall, index: int, results: Results) -> None:
    part = call.parts[index]
    try:
        share_partition = await partitions.share_partition(call.group_id, part.topic_id, part.partition)
    except NoStateError as error:  # a fetch may wait for it; what was never acquired never will be
        results.settle(index, KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message))
    except KafkaError as error:
        results.settle(index, error)
    except Exception:
        _log.exception("a share-partition could not be loaded", group=call.group_id, topic_id=part.topic_id)
        results.settle(index, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    else:
        _apply(share_partition, call, index, results)


def _apply(share_partition: ShareGroupPartition, call: AcknowledgeCall, index: int, results: Results) -> None:
    part = call.parts[index]
    try:
        if not call.renew_allowed and any(RENEW in batch.types for batch in part.batches):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Renewing was not announced by the request.")
        share_partition.acknowledge(
            lock_holders.of_member(call.member_id), part.batches, partial(results.settle, index), part.delay
        )
    except KafkaError as error:
        results.settle(index, error)
