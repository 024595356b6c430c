"""Publish: builds record batches of single records and appends them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final

from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_server.catalog.topics import check_topic_name
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.produce.record_batching import PartitionBatches, by_partition, publish_traces
from sharebroker_server.gateway.produce.scheduling import add_delivery_headers
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult

MAX_PUBLISH_RECORDS: Final = 10_000


async def publish(gateway: Gateway, request: pb.PublishRequest, deadline: Deadline) -> pb.PublishResponse:
    """Appends the records to their partitions; completed when all are durable. Raises KafkaError."""
    if not 1 <= len(request.records) <= MAX_PUBLISH_RECORDS:
        raise invalid_field(
            "records", f"{len(request.records)} records; 1 to {MAX_PUBLISH_RECORDS} are allowed."
        )
    check_topic_name(request.topic)
    topic = await create_on_demand(gateway, request.topic, deadline)
    gateway.catalog.catalog.check_own(topic)
    config = gateway.catalog.topic_config(topic)
    add_delivery_headers(topic.name, request.records, config, round(now() * 1000))
    traces = publish_traces(topic.name)
    partitions = by_partition(request.records, topic, config.max_message_bytes, traces)
    parts = [AppendPart(topic.topic_id, index, batches.build()) for index, batches in partitions.items()]
    try:
        results = await gateway.leaders.append(AppendCall(parts, duplicate_offsets=True), deadline)
    except asyncio.CancelledError:
        if traces is not None:
            traces.cancelled()
        raise
    if traces is not None:
        traces.completed(results)
    _raise_failure(results, [batches.indexes for batches in partitions.values()])
    return pb.PublishResponse(positions=_positions(len(request.records), partitions, results))


def _raise_failure(results: Sequence[AppendResult], indexes: Sequence[Sequence[int]]) -> None:
    """Raises the error of the first failed partition, with the number of published records."""
    failed = [result for result in results if result.error_code]
    if not failed:
        return
    published = sum(
        len(records) for records, result in zip(indexes, results, strict=True) if not result.error_code
    )
    raise KafkaError(
        ErrorCode(failed[0].error_code),
        failed[0].error_message,
        metadata={
            "published": str(published),
            "failed_partitions": ",".join(str(result.partition) for result in failed),
        },
    )


def _positions(
    total: int, partitions: dict[int, PartitionBatches], results: Sequence[AppendResult]
) -> list[pb.PublishResponse.Position]:
    positions = [pb.PublishResponse.Position()] * total
    for (partition, batches), result in zip(partitions.items(), results, strict=True):
        for offset, index in zip(result.offsets or count(result.base_offset), batches.indexes, strict=False):
            positions[index] = pb.PublishResponse.Position(partition=partition, offset=offset)
    return positions
