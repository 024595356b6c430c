"""The topic __share_group_state for Kafka's clients: each partition is a shard of the share coordinator.

It is read-only. Its name and id stand in libs.catalog.internal. Every gateway can serve every partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from libs.catalog.internal import state_topic
from libs.catalog.records import Topic
from services.gateway.clients.deadline import MOVED_COORDINATOR, Deadline
from services.gateway.config import STATE_LOG_PATIENCE
from services.gateway.service.gateway import Gateway
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_coordinator.v1 import share_coordinator_pb2 as pb

if TYPE_CHECKING:
    from sharebroker.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub as Stub,
    )

Fetched = pb.FetchShareGroupStateResponse
Found = pb.FindShareGroupStateOffsetResponse

_T = TypeVar("_T")


def topic(gateway: Gateway) -> Topic:
    """The topic as the catalog would describe it."""
    return state_topic(gateway.config.share_coordinator_state_topic_num_partitions)


class Wanted(NamedTuple):
    """A partition to read, from an offset on."""

    partition: int
    offset: int
    max_bytes: int


async def fetch(
    gateway: Gateway, wanted: Sequence[Wanted], max_wait: float = 0.0
) -> list[Fetched | KafkaError]:
    """What there is of each partition; where there is nothing at all, waits for the first that has something.

    An error is OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION or, of a shard that nobody owns,
    NOT_LEADER_OR_FOLLOWER.
    """
    answers = list(await asyncio.gather(*(_fetch(gateway, one, 0.0) for one in wanted)))
    if max_wait <= 0 or any(isinstance(one, KafkaError) or one.record_batches for one in answers):
        return answers
    waiting = {asyncio.create_task(_fetch(gateway, one, max_wait)): n for n, one in enumerate(wanted)}
    try:
        news, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    for task in news:
        answers[waiting[task]] = task.result()
    return answers


async def find_offset(gateway: Gateway, partition: int, timestamp: int) -> Found:
    """Offset by time (milliseconds; -1: the end, -2: the start, -3: the newest record).

    Raises as the errors of `fetch` are.
    """
    request = pb.FindShareGroupStateOffsetRequest(shard=partition, timestamp=timestamp)
    return await _ask(
        gateway, partition, lambda stub, left: stub.FindShareGroupStateOffset(request, timeout=left)
    )


async def _fetch(gateway: Gateway, wanted: Wanted, max_wait: float) -> Fetched | KafkaError:
    partition, offset, max_bytes = wanted
    request = pb.FetchShareGroupStateRequest(
        shard=partition, fetch_offset=offset, max_bytes=max_bytes, max_wait_ms=round(max_wait * 1000)
    )
    try:
        return await _ask(
            gateway,
            partition,
            lambda stub, left: stub.FetchShareGroupState(request, timeout=left),
            max_wait,
        )
    except KafkaError as error:
        return error


async def _ask(
    gateway: Gateway,
    partition: int,
    send: Callable[[Stub, float], Awaitable[_T]],
    max_wait: float = 0.0,
) -> _T:
    try:
        deadline = Deadline(max_wait + STATE_LOG_PATIENCE)
        return await gateway.coordinators.of_share_state(partition, send, deadline)
    except KafkaError as error:
        if error.code in MOVED_COORDINATOR:  # consumers know no coordinators, they know leaders
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        raise
