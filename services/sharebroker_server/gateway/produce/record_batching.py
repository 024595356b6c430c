"""Builds and traces the record batches of published records, by partition.

The gateway starts the traces of these records: clients that publish single records need no tracing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sharebroker_protocol import tracing
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.batches import CODECS, HEADER_BYTES, BatchBuilder, Header
from sharebroker_protocol.records.partitioner import Partitioner
from sharebroker_protocol.records.record import message_id_header
from sharebroker_protocol.tracing.context import BYTES as TRACE_BYTES
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.leader_calls.values import AppendResult

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import BatchTraces, RecordTraces

PUBLISH_BATCH_BYTES: Final = 256 * 1024
"""Size at which `Publish` starts another batch of a partition."""


_RECORD_OVERHEAD = 40  # limit of the bytes beside key, value and headers; also of each header


@dataclass(slots=True)
class PartitionBatches:
    """The records of one partition: their `indexes` in the request, and the batches with them."""

    size: int
    indexes: list[int] = field(default_factory=list)
    builders: list[BatchBuilder] = field(default_factory=list)

    def add(self, index: int, record: pb.PublishRecord, timestamp_ms: int, traced: list[Header]) -> None:
        """Adds a record, to another batch if the last one is full."""
        self.indexes.append(index)
        fields = (
            record.timestamp_ms or timestamp_ms,
            record.key if record.HasField("key") else None,
            _value(record),
            [*_headers(record), *traced],
        )
        if not self.builders or not self.builders[-1].append(*fields):
            self.builders.append(BatchBuilder(CODECS["none"], self.size))
            self.builders[-1].append(*fields)

    def build(self) -> bytes:
        """The record batches of all records."""
        return b"".join(builder.build() for builder in self.builders)


def by_partition(
    records: Sequence[pb.PublishRecord], topic: Topic, limit: int, traces: PublishTraces | None
) -> dict[int, PartitionBatches]:
    """The records by partition, in the order of the request."""
    size = min(PUBLISH_BATCH_BYTES, limit)
    partitioner = Partitioner(size, random.randrange)
    timestamp_ms = round(now() * 1000)
    weights = [_checked_weight(index, record, topic, limit) for index, record in enumerate(records)]
    partitions: dict[int, PartitionBatches] = {}
    for index, (record, weight) in enumerate(zip(records, weights, strict=True)):
        if record.HasField("partition"):
            partition = record.partition
        else:
            key = record.key if record.HasField("key") else record.message_id.encode() or None
            partition = partitioner.partition(key, weight, topic.partitions)
        batches = partitions.setdefault(partition, PartitionBatches(size))
        traced: list[Header] = []
        if traces is not None and weight + HEADER_BYTES + TRACE_BYTES <= limit:
            traced = traces.begin(record, partition, len(batches.indexes))
        batches.add(index, record, timestamp_ms, traced)
    return partitions


def _checked_weight(index: int, record: pb.PublishRecord, topic: Topic, limit: int) -> int:
    """The approximate size of a record in a batch. Raises KafkaError for an invalid record."""
    field = f"records[{index}]"
    if record.HasField("partition") and not 0 <= record.partition < topic.partitions:
        raise invalid_field(
            f"{field}.partition",
            f"Topic '{topic.name}' has partitions 0 to {topic.partitions - 1}.",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    if record.timestamp_ms < 0:
        raise invalid_field(f"{field}.timestamp_ms", "A timestamp is not negative.", ErrorCode.INVALID_RECORD)
    if record.message_id:
        try:
            message_id_header(record.message_id)
        except KafkaError as error:
            raise invalid_field(f"{field}.message_id", error.message, error.code) from error
    headers = sum(len(name) + len(value) + _RECORD_OVERHEAD for name, value in _headers(record))
    weight = len(record.key) + len(_value(record) or b"") + headers + _RECORD_OVERHEAD
    if weight + HEADER_BYTES > limit:
        raise invalid_field(
            field,
            f"The record has {weight} bytes; max.message.bytes is {limit}.",
            ErrorCode.MESSAGE_TOO_LARGE,
        )
    return weight


def _headers(record: pb.PublishRecord) -> list[tuple[str, bytes]]:
    """The headers of a record, with that of its message id."""
    headers = [(header.key, header.value) for header in record.headers]
    if record.message_id:
        headers.append(message_id_header(record.message_id))
    return headers


def _value(record: pb.PublishRecord) -> bytes | None:
    match record.WhichOneof("payload"):
        case "value":
            return record.value
        case "text":
            return record.text.encode()
        case _:
            return None


@dataclass(slots=True)
class _PartitionRecords:
    """The traced records of one partition of a request."""

    topic: str
    partition: int
    sent_at: float
    base_offset: int = -1
    error: KafkaError | None = None


class PublishTraces:
    """The spans of one Publish."""

    def __init__(self, topic: str, traces: RecordTraces) -> None:
        self._topic = topic
        self._traces = traces
        self._untraced = traces.left_out()
        self._batches: dict[int, tuple[_PartitionRecords, BatchTraces]] = {}

    def begin(self, record: pb.PublishRecord, partition: int, index: int) -> list[Header]:
        """Starts a span; returns the headers to add. `index` is the record's position in its partition."""
        if self._untraced:
            self._untraced -= 1
            return []
        self._untraced = self._traces.left_out()
        headers = [(header.key, header.value) for header in record.headers]
        span = self._traces.begin(self._topic, headers, now())
        if span is None:
            return []
        if partition not in self._batches:
            records = _PartitionRecords(self._topic, partition, now())
            self._batches[partition] = (records, self._traces.of_batch(records))
        self._batches[partition][1].add(index, span)
        return self._traces.headers(span)

    def completed(self, results: Iterable[AppendResult]) -> None:
        """Ends the spans with the result of each partition."""
        for result in results:
            found = self._batches.get(result.partition)
            if found is None:
                continue
            records, traces = found
            # The originals of duplicates are not consecutive: their spans have no offset.
            records.base_offset = -1 if result.offsets else result.base_offset
            if result.error_code:
                records.error = KafkaError(result.error_code, result.error_message)
            traces.end()

    def cancelled(self) -> None:
        """Ends the spans of a request that its client cancelled; the outcome is unknown."""
        for records, traces in self._batches.values():
            records.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The client cancelled the request.")
            traces.end()


def publish_traces(topic: str) -> PublishTraces | None:
    """The traces of one Publish; None if this process does not trace."""
    if tracing.on is None:
        return None
    from sharebroker_protocol.tracing.tracer import RecordTraces  # imports OpenTelemetry

    return PublishTraces(topic, RecordTraces(tracing.on))
