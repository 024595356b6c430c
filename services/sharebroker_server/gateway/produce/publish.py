"""Publish: single records, made into batches here."""

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
from sharebroker_server.gateway.produce.append import Answer, Part, append
from sharebroker_server.gateway.produce.record_traces import PublishTraces, publish_traces

_RECORD_OVERHEAD = 40  # of a record beside its key, value and headers, at most; and of each header


async def publish(gateway: Gateway, request: pb.PublishRequest, deadline: Deadline) -> pb.PublishResponse:
    """Append the records to their partitions; answered when all are durable. Raises KafkaError."""
    if not 1 <= len(request.records) <= MAX_PUBLISH_RECORDS:
        raise refused("records", f"{len(request.records)} records; 1 to {MAX_PUBLISH_RECORDS} are allowed.")
    check_topic_name(request.topic)
    topic = await create_on_demand(gateway, request.topic, deadline)
    limit = gateway.catalog.topic_config(topic).max_message_bytes
    traces = publish_traces(topic.name)
    placed = _placed(request.records, topic, limit, traces)
    parts = [
        Part(topic_id=topic.topic_id, partition=index, record_batches=batches.build())
        for index, batches in placed.items()
    ]
    try:
        answers = await append(gateway, parts, deadline)
    except asyncio.CancelledError:
        if traces is not None:
            traces.given_up()
        raise
    if traces is not None:
        traces.answered(answers)
    _raise_failure(answers, [batches.indexes for batches in placed.values()])
    return pb.PublishResponse(positions=_positions(len(request.records), placed, answers))


@dataclass(slots=True)
class _Batches:
    """What goes to one partition: `indexes` of its records in the request, and the batches they are in."""

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


def _placed(
    records: Sequence[pb.PublishRecord], topic: Topic, limit: int, traces: PublishTraces | None
) -> dict[int, _Batches]:
    """The records by partition, in the order of the request."""
    size = min(PUBLISH_BATCH_BYTES, limit)
    partitioner = Partitioner(size, random.randrange)
    timestamp_ms = round(now() * 1000)
    weights = [_checked_weight(index, record, topic, limit) for index, record in enumerate(records)]
    placed: dict[int, _Batches] = {}
    for index, (record, weight) in enumerate(zip(records, weights, strict=True)):
        if record.HasField("partition"):
            partition = record.partition
        else:
            key = record.key if record.HasField("key") else None
            partition = partitioner.partition(key, weight, topic.partitions)
        batches = placed.setdefault(partition, _Batches(size))
        traced: list[Header] = []
        if traces is not None and weight + HEADER_BYTES + TRACE_BYTES <= limit:
            traced = traces.begin(record, partition, len(batches.indexes))
        batches.add(index, record, timestamp_ms, traced)
    return placed


def _checked_weight(index: int, record: pb.PublishRecord, topic: Topic, limit: int) -> int:
    """About the record's bytes in a batch. Raises KafkaError for one that cannot be published."""
    name = f"records[{index}]"
    if record.HasField("partition") and not 0 <= record.partition < topic.partitions:
        raise refused(
            f"{name}.partition",
            f"Topic '{topic.name}' has partitions 0 to {topic.partitions - 1}.",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    if record.timestamp_ms < 0:
        raise refused(f"{name}.timestamp_ms", "A timestamp is not negative.", ErrorCode.INVALID_RECORD)
    headers = sum(len(header.key) + len(header.value) + _RECORD_OVERHEAD for header in record.headers)
    weight = len(record.key) + len(_value(record) or b"") + headers + _RECORD_OVERHEAD
    if weight + HEADER_BYTES > limit:
        raise refused(
            name, f"The record has {weight} bytes; max.message.bytes is {limit}.", ErrorCode.MESSAGE_TOO_LARGE
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


def _raise_failure(answers: Sequence[Answer], indexes: Sequence[Sequence[int]]) -> None:
    """Raise the first partition's failure, and say how many records other partitions took."""
    failed = [answer for answer in answers if answer.error_code]
    if not failed:
        return
    published = sum(len(some) for some, answer in zip(indexes, answers, strict=True) if not answer.error_code)
    raise KafkaError(
        ErrorCode(failed[0].error_code),
        failed[0].error_message,
        metadata={
            "published": str(published),
            "failed_partitions": ",".join(str(answer.partition) for answer in failed),
        },
    )


def _positions(
    total: int, placed: dict[int, _Batches], answers: Sequence[Answer]
) -> list[pb.PublishResponse.Position]:
    positions = [pb.PublishResponse.Position()] * total
    for (partition, batches), answer in zip(placed.items(), answers, strict=True):
        for offset, index in enumerate(batches.indexes, answer.base_offset):
            positions[index] = pb.PublishResponse.Position(partition=partition, offset=offset)
    return positions
