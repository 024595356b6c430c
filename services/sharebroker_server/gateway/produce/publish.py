"""Publish: builds record batches of single records and appends them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.batch_builder import HEADER_BYTES, BatchBuilder, Header
from sharebroker_protocol.records.compression import CODECS
from sharebroker_protocol.records.partitioner import Partitioner
from sharebroker_protocol.tracing.context import BYTES as TRACE_BYTES
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import MAX_PUBLISH_RECORDS, PUBLISH_BATCH_BYTES
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.validation import refused
from sharebroker_server.gateway.produce.record_traces import PublishTraces, publish_traces
from sharebroker_server.share_calls.values import AppendCall, AppendPart, AppendResult

_RECORD_OVERHEAD = 40  # limit of the bytes beside key, value and headers; also of each header


async def publish(gateway: Gateway, request: pb.PublishRequest, deadline: Deadline) -> pb.PublishResponse:
    """Appends the records to their partitions; completed when all are durable. Raises KafkaError."""
    if not 1 <= len(request.records) <= MAX_PUBLISH_RECORDS:
        raise refused("records", f"{len(request.records)} records; 1 to {MAX_PUBLISH_RECORDS} are allowed.")
    check_topic_name(request.topic)
    topic = await create_on_demand(gateway, request.topic, deadline)
    limit = gateway.catalog.topic_config(topic).max_message_bytes
    traces = publish_traces(topic.name)
    partitions = _by_partition(request.records, topic, limit, traces)
    parts = [AppendPart(topic.topic_id, index, batches.build()) for index, batches in partitions.items()]
    try:
        results = await gateway.leaders.append(AppendCall(parts), deadline)
    except asyncio.CancelledError:
        if traces is not None:
            traces.cancelled()
        raise
    if traces is not None:
        traces.completed(results)
    _raise_failure(results, [batches.indexes for batches in partitions.values()])
    return pb.PublishResponse(positions=_positions(len(request.records), partitions, results))


@dataclass(slots=True)
class _Batches:
    """The records of one partition: their `indexes` in the request, and the batches with them."""

    size: int
    indexes: list[int] = field(default_factory=list)
    builders: list[BatchBuilder] = field(default_factory=list)

    def add(self, index: int, record: pb.PublishRecord, timestamp_ms: int, traced: list[Header]) -> None:
        self.indexes.append(index)
        fields = (
            record.timestamp_ms or timestamp_ms,
            record.key if record.HasField("key") else None,
            _value(record),
            [*((header.key, header.value) for header in record.headers), *traced],
        )
        if not self.builders or not self.builders[-1].append(*fields):
            self.builders.append(BatchBuilder(CODECS["none"], self.size))
            self.builders[-1].append(*fields)

    def build(self) -> bytes:
        return b"".join(builder.build() for builder in self.builders)


def _by_partition(
    records: Sequence[pb.PublishRecord], topic: Topic, limit: int, traces: PublishTraces | None
) -> dict[int, _Batches]:
    """The records by partition, in the order of the request."""
    size = min(PUBLISH_BATCH_BYTES, limit)
    partitioner = Partitioner(size, random.randrange)
    timestamp_ms = round(now() * 1000)
    weights = [_checked_weight(index, record, topic, limit) for index, record in enumerate(records)]
    partitions: dict[int, _Batches] = {}
    for index, (record, weight) in enumerate(zip(records, weights, strict=True)):
        if record.HasField("partition"):
            partition = record.partition
        else:
            key = record.key if record.HasField("key") else None
            partition = partitioner.partition(key, weight, topic.partitions)
        batches = partitions.setdefault(partition, _Batches(size))
        traced: list[Header] = []
        if traces is not None and weight + HEADER_BYTES + TRACE_BYTES <= limit:
            traced = traces.begin(record, partition, len(batches.indexes))
        batches.add(index, record, timestamp_ms, traced)
    return partitions


def _checked_weight(index: int, record: pb.PublishRecord, topic: Topic, limit: int) -> int:
    """The approximate size of a record in a batch. Raises KafkaError for an invalid record."""
    field = f"records[{index}]"
    if record.HasField("partition") and not 0 <= record.partition < topic.partitions:
        raise refused(
            f"{field}.partition",
            f"Topic '{topic.name}' has partitions 0 to {topic.partitions - 1}.",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    if record.timestamp_ms < 0:
        raise refused(f"{field}.timestamp_ms", "A timestamp is not negative.", ErrorCode.INVALID_RECORD)
    headers = sum(len(header.key) + len(header.value) + _RECORD_OVERHEAD for header in record.headers)
    weight = len(record.key) + len(_value(record) or b"") + headers + _RECORD_OVERHEAD
    if weight + HEADER_BYTES > limit:
        raise refused(
            field,
            f"The record has {weight} bytes; max.message.bytes is {limit}.",
            ErrorCode.MESSAGE_TOO_LARGE,
        )
    return weight


def _value(record: pb.PublishRecord) -> bytes | None:
    match record.WhichOneof("payload"):
        case "value":
            return record.value
        case "text":
            return record.text.encode()
        case _:
            return None


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
    total: int, partitions: dict[int, _Batches], results: Sequence[AppendResult]
) -> list[pb.PublishResponse.Position]:
    positions = [pb.PublishResponse.Position()] * total
    for (partition, batches), result in zip(partitions.items(), results, strict=True):
        for offset, index in enumerate(batches.indexes, result.base_offset):
            positions[index] = pb.PublishResponse.Position(partition=partition, offset=offset)
    return positions
