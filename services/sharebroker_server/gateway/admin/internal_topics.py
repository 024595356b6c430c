"""The internal topics for Kafka's clients: each partition is a shard of the share or the group coordinator.

They are read-only. `sharebroker_server.catalog.internal_topics` has their names and ids. Every gateway can
serve every partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.catalog.internal_topics import IDS, OFFSETS_TOPIC_ID, internal_topic
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import MOVED_COORDINATOR, Deadline
from sharebroker_server.gateway.config import SHARD_LOG_PATIENCE
from sharebroker_server.gateway.context import Gateway

Fetched = pb.FetchShareGroupStateResponse
Found = pb.FindShareGroupStateOffsetResponse


def topics(gateway: Gateway) -> list[Topic]:
    """The topics as the catalog would describe them."""
    return [topic(gateway, name) for name in IDS]


def topic(gateway: Gateway, name: str) -> Topic:
    """One of them."""
    return internal_topic(name, gateway.config)


class Wanted(NamedTuple):
    """A partition to read, from an offset on."""

    topic_id: str
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


async def find_offset(gateway: Gateway, topic_id: str, partition: int, timestamp: int) -> Found:
    """Offset by time (milliseconds; -1: the end, -2: the start, -3: the newest record).

    Raises as the errors of `fetch` are.
    """
    coordinators, deadline = gateway.coordinators, Deadline(SHARD_LOG_PATIENCE)
    request = pb.FindShareGroupStateOffsetRequest(shard=partition, timestamp=timestamp)
    with _as_of_a_leader():
        if topic_id == OFFSETS_TOPIC_ID:
            return await coordinators.of_groups(
                partition, lambda stub, left: stub.FindGroupLogOffset(request, timeout=left), deadline
            )
        return await coordinators.of_share_state(
            partition, lambda stub, left: stub.FindShareGroupStateOffset(request, timeout=left), deadline
        )


async def _fetch(gateway: Gateway, wanted: Wanted, max_wait: float) -> Fetched | KafkaError:
    request = pb.FetchShareGroupStateRequest(
        shard=wanted.partition,
        fetch_offset=wanted.offset,
        max_bytes=wanted.max_bytes,
        max_wait_ms=round(max_wait * 1000),
    )
    try:
        with _as_of_a_leader():
            return await _read(gateway, wanted.topic_id, request, Deadline(max_wait + SHARD_LOG_PATIENCE))
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
def _as_of_a_leader() -> Iterator[None]:
    """Consumers know no coordinators, they know leaders."""
    try:
        yield
    except KafkaError as error:
        if error.code in MOVED_COORDINATOR:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        raise
