"""Offsets of partitions by timestamp, those of internal topics included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.admin.partitions import list_offsets
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.topics import Located, Rejected, each_partition
from sharebroker_server.rpc.errors import wire

Offset = pb.ListOffsetsResponse.Partition

I = TypeVar("I")  # noqa: E741 - an item of a request


async def find_offsets(
    call: Call[Any],
    partitions: Iterable[Located[I] | Rejected[I]],
    query: Callable[[I], tuple[int, int]],
    *,
    isolation_level: int = 0,
    timeout_ms: int = 0,
) -> list[Offset]:
    """Returns the offset of each partition by time.

    `query` returns the partition and the timestamp of an item.
    """
    deadline = call.deadline(timeout_ms)

    async def ordinary(items: list[Located[I]]) -> Sequence[Offset]:
        queries = [(topic.topic_id, *query(item)) for topic, item in items]
        request = pb.ListOffsetsRequest(
            partitions=[
                pb.ListOffsetsRequest.Partition(topic_id=topic_id, partition=index, timestamp=timestamp)
                for topic_id, index, timestamp in queries
            ],
            isolation_level=isolation_level,
        )
        return (await list_offsets(call.gateway, request, deadline)).partitions

    async def internal_offset(topic_id: str, index: int, timestamp: int) -> Offset:
        try:
            found = await internal_topics.find_offset(call.gateway, topic_id, index, timestamp)
        except KafkaError as error:
            return Offset(error_code=wire(error.code))
        return Offset(offset=found.offset, timestamp=found.timestamp)

    async def internal(items: list[Located[I]]) -> Sequence[Offset]:
        return await asyncio.gather(*(internal_offset(topic.topic_id, *query(item)) for topic, item in items))

    return await each_partition(
        partitions,
        ordinary,
        internal,
        lambda rejected: Offset(error_code=wire(rejected.error.code)),
        call.gateway.turns,
    )
