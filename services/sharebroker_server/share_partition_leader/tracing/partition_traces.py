"""Traced records of led partitions: their offsets, and the spans of their appends.

The spans of a record belong to the trace that its headers name: `append` and each `acquire` are children of
the span that produced the record. A process that does not trace creates none of these objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from opentelemetry.trace import Span, SpanKind

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.sampling import SpanLimit
from sharebroker_protocol.tracing.tracer import Attributes, Tracer
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import Buffer, StoredBatch
from sharebroker_server.record_log.traced_records import (
    DECODED_BYTES_PER_SECOND,
    TracedOffsets,
    TracedRecord,
    TracedRecordLimit,
    TraceFinder,
)
from sharebroker_server.share_partition_leader.tracing.record_spans import RecordSpans


class LeaderTraces:
    """Traced records of all led partitions."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float]) -> None:
        self.tracer = tracer
        self.finder = TraceFinder(
            tracer, SpanLimit(DECODED_BYTES_PER_SECOND, DECODED_BYTES_PER_SECOND, clock)
        )
        self._remembered = TracedRecordLimit()

    def of(self, topic: str, partition: int, log_end_offset: int) -> PartitionTraces:
        """Creates the traces of a partition that this process leads from now on."""
        return PartitionTraces(self, topic, partition, TracedOffsets(self._remembered, log_end_offset))


class PartitionTraces:
    """Traced records of one partition, shared by all groups."""

    def __init__(self, leader: LeaderTraces, topic: str, partition: int, offsets: TracedOffsets) -> None:
        self.tracer = leader.tracer
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self._finder = leader.finder
        self._in_progress: set[asyncio.Task[Appended]] = set()

    def find(self, data: Buffer) -> list[TracedRecord]:
        """Returns the traced records of a produce request."""
        return self._finder.find(data)

    async def append(self, found: Sequence[TracedRecord], append: Coroutine[Any, Any, Appended]) -> Appended:
        """Awaits an append of traced records; their spans end even if the caller is cancelled."""
        task = asyncio.create_task(self._append(found, append))
        self._in_progress.add(task)
        task.add_done_callback(self._in_progress.discard)
        return await asyncio.shield(task)

    async def _append(self, found: Sequence[TracedRecord], append: Coroutine[Any, Any, Appended]) -> Appended:
        begun = now()
        try:
            appended = await append
        except KafkaError as error:
            self.appended(found, error, begun)
            raise
        self.appended(found, appended, begun)
        return appended

    def appended(self, found: Sequence[TracedRecord], outcome: Appended | KafkaError, begun: float) -> None:
        """Makes the `append` spans of records that are durable or rejected; a retried append has one span."""
        error = outcome if isinstance(outcome, KafkaError) else None
        for place, context in found:
            attributes = self.about("append", names.SEND)
            if isinstance(outcome, Appended):
                attributes[names.OFFSET] = offset = outcome.offset_of(place)
                if not self.offsets.add(offset, context):
                    continue
            span = self.start("append", context, attributes, begun)
            if span is not None:
                self.tracer.end(span, error)

    def look_into(self, batches: Sequence[StoredBatch]) -> None:
        """Finds traced records in batches that were appended before this process led the partition."""
        for batch in batches:
            first, last = batch.base_offset, batch.last_offset
            if first < self.offsets.known_from and not self.offsets.within(first, last):
                for place, context in self._finder.find(batch.data):
                    self.offsets.add(first + place, context)

    def observer(self, group_id: str) -> RecordSpans:
        """Creates the observer of one group's share-partition."""
        return RecordSpans(self, group_id)

    def about(self, operation: str, type_: str) -> dict[str, str | int]:
        """Returns the attributes that every span of a record has."""
        return names.about(operation, type_, self.topic, self.partition)

    def start(
        self, operation: str, parent: TraceContext, attributes: Attributes, at: float | None = None
    ) -> Span | None:
        """Starts a span of a record, with a link to the span of the current call if that is traced."""
        current = self.tracer.current()
        links = [current] if current is not None and current.trace_id != parent.trace_id else []
        return self.tracer.start(
            f"{operation} {self.topic}", parent, SpanKind.INTERNAL, attributes, links, at
        )
