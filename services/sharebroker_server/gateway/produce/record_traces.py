"""Traces of records that a gateway builds: clients that publish single records need no tracing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sharebroker_protocol import tracing
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.batches import Header
from sharebroker_server.share_calls.values import AppendResult

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import BatchTraces, RecordTraces


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
            records.base_offset = result.base_offset
            if result.error_code:
                records.error = KafkaError(result.error_code, result.error_message)
            traces.settled()

    def cancelled(self) -> None:
        """Ends the spans of a request that its client cancelled; the outcome is unknown."""
        for records, traces in self._batches.values():
            records.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The client cancelled the request.")
            traces.settled()


def publish_traces(topic: str) -> PublishTraces | None:
    """The traces of one Publish; None if this process does not trace."""
    if tracing.on is None:
        return None
    from sharebroker_protocol.tracing.tracer import RecordTraces  # imports OpenTelemetry

    return PublishTraces(topic, RecordTraces(tracing.on))
