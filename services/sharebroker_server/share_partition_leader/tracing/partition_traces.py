"""The traced records of the partitions that a process leads: which they are, and spans about them.

Spans of a record are in the trace that its headers name: `append` and each `acquire` below the span that made
the record, what ended the lock below the `acquire`. A write of share state is one span for all it carries, in
the trace of the first; the others name it. Nothing of this is made in a process that does not trace.
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
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.tracer import Attributes, Tracer
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import Buffer, StoredBatch
from sharebroker_server.record_log.traced_records import DECODED_BYTES_PER_SECOND, TracedRecord, TraceFinder
from sharebroker_server.telemetry.tracing.traced_offsets import Remembered, TracedOffsets


class LeaderTraces:
    """Of all partitions that a process leads."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float]) -> None:
        self.tracer = tracer
        self.finder = TraceFinder(
            tracer, SpanLimit(DECODED_BYTES_PER_SECOND, DECODED_BYTES_PER_SECOND, clock)
        )
        self._remembered = Remembered()

    def of(self, topic: str, partition: int, log_end_offset: int) -> PartitionTraces:
        """A partition's, from here on led by this process."""
        return PartitionTraces(self, topic, partition, TracedOffsets(self._remembered, log_end_offset))


class PartitionTraces:
    """Of one partition, whatever groups read it."""

    def __init__(self, leader: LeaderTraces, topic: str, partition: int, offsets: TracedOffsets) -> None:
        self.tracer = leader.tracer
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self._finder = leader.finder
        self._under_way: set[asyncio.Task[Appended]] = set()

    def find(self, data: Buffer) -> list[TracedRecord]:
        """What is traced of the batches of a produce request."""
        return self._finder.find(data)

    async def told(self, found: Sequence[TracedRecord], append: Coroutine[Any, Any, Appended]) -> Appended:
        """The outcome of an append of traced records. It is told also where who asked gives up before."""
        task = asyncio.create_task(self._told(found, append))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _told(self, found: Sequence[TracedRecord], append: Coroutine[Any, Any, Appended]) -> Appended:
        begun = now()
        try:
            appended = await append
        except KafkaError as error:
            self.appended(found, error, begun)
            raise
        self.appended(found, appended, begun)
        return appended

    def appended(self, found: Sequence[TracedRecord], outcome: Appended | KafkaError, begun: float) -> None:
        """They are durable, or refused. A record that was appended before is told once."""
        error = outcome if isinstance(outcome, KafkaError) else None
        for place, context in found:
            told = self.about("append", names.SEND)
            if isinstance(outcome, Appended):
                told[names.OFFSET] = offset = outcome.base_offset + place
                if not self.offsets.add(offset, context):
                    continue
            span = self.start("append", context, told, begun)
            if span is not None:
                self.tracer.end(span, error)

    def look_into(self, batches: Sequence[StoredBatch]) -> None:
        """Batches that were in the log before this process led it."""
        for batch in batches:
            first, last = batch.base_offset, batch.last_offset
            if first < self.offsets.known_from and not self.offsets.within(first, last):
                for place, context in self._finder.find(batch.data):
                    self.offsets.add(first + place, context)

    def about(self, operation: str, type_: str) -> dict[str, str | int]:
        """The attributes that every span of a record has."""
        return names.about(operation, type_, self.topic, self.partition)

    def start(
        self, operation: str, parent: TraceContext, told: Attributes, at: float | None = None
    ) -> Span | None:
        """A span of a record; it names the call that brought it about, where that is traced."""
        current = self.tracer.current()
        links = [current] if current is not None and current.trace_id != parent.trace_id else []
        return self.tracer.start(f"{operation} {self.topic}", parent, SpanKind.INTERNAL, told, links, at)
