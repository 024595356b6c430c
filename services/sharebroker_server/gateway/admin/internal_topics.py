"""Internal topics for Kafka clients: each partition is a shard of the share or the group coordinator.

They are read-only. `sharebroker_server.catalog.topics` has their names and ids. Every gateway serves
all partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, OFFSETS_TOPIC_ID, Topic, internal_topic
from sharebroker_server.gateway.clients import MOVED_COORDINATOR
from sharebroker_server.gateway.context import Gateway

SHARD_LOG_PATIENCE: Final = 5.0
"""Limit of the wait of an internal topic's reader for a shard without an owner."""


Fetched = pb.FetchShareGroupStateResponse
Found = pb.FindShareGroupStateOffsetResponse


def topics(gateway: Gateway) -> list[Topic]:
    """Returns the internal topics in the format of the catalog."""
    return [topic(gateway, name) for name in INTERNAL_TOPIC_IDS]


def topic(gateway: Gateway, name: str) -> Topic:
    """Returns one internal topic."""
    return internal_topic(name, gateway.config)


class FetchPartition(NamedTuple):
    """A partition to read, and the fetch offset."""

    topic_id: str
    partition: int
    offset: int
    max_bytes: int


async def fetch(
    gateway: Gateway, partitions: Sequence[FetchPartition], max_wait: float = 0.0
) -> list[Fetched | KafkaError]:
    """Fetches records of partitions; without any records, waits until the first partition has some.

    Errors are OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, and NOT_LEADER_OR_FOLLOWER for a shard without
    an owner.
    """
    results = list(await asyncio.gather(*(_fetch(gateway, each, 0.0) for each in partitions)))
    if max_wait <= 0 or any(isinstance(each, KafkaError) or each.record_batches for each in results):
        return results
    waiting = {
        asyncio.create_task(_fetch(gateway, each, max_wait)): index for index, each in enumerate(partitions)
    }
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    for task in done:
        results[waiting[task]] = task.result()
    return results


async def find_offset(gateway: Gateway, topic_id: str, partition: int, timestamp: int) -> Found:
    """Returns an offset by time (milliseconds; -1: the end, -2: the start, -3: the newest record).

    Raises the errors of `fetch`.
    """
    coordinators, deadline = gateway.coordinators, Deadline(SHARD_LOG_PATIENCE)
    request = pb.FindShareGroupStateOffsetRequest(shard=partition, timestamp=timestamp)
    with _leader_errors():
        if topic_id == OFFSETS_TOPIC_ID:
            return await coordinators.of_groups(
                partition, lambda stub, left: stub.FindGroupLogOffset(request, timeout=left), deadline
            )
        return await coordinators.of_share_state(
            partition, lambda stub, left: stub.FindShareGroupStateOffset(request, timeout=left), deadline
        )


async def _fetch(gateway: Gateway, partition: FetchPartition, max_wait: float) -> Fetched | KafkaError:
    request = pb.FetchShareGroupStateRequest(
        shard=partition.partition,
        fetch_offset=partition.offset,
        max_bytes=partition.max_bytes,
        max_wait_ms=round(max_wait * 1000),
    )
    try:
        with _leader_errors():
            return await _read(gateway, partition.topic_id, request, Deadline(max_wait + SHARD_LOG_PATIENCE))
    except KafkaError as error:
        return error


async def _read(
    gateway: Gateway, topic_id: str, request: pb.FetchShareGroupStateRequest, deadline: Deadline
) -> Fetched:
    if topic_id == OFFSETS_TOPIC_ID:
        return await gateway.coordinators.of_groups(
            request.shard, lambda stub, left: stub.FetchGroupLog(request, timeout=left), deadline
        )
    return await gateway.coordinators.of_share_state(
        request.shard, lambda stub, left: stub.FetchShareGroupState(request, timeout=left), deadline
    )


@contextmanager
def _leader_errors() -> Iterator[None]:
    """Converts coordinator errors to leader errors, which consumers expect."""
    try:
        yield
    except KafkaError as error:
        if error.code in MOVED_COORDINATOR:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        raise
