"""Spans of publishing: a `create` span per record and one `send` span per batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.trace import Span, SpanKind

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import PARENT
from sharebroker_protocol.tracing.tracer import Tracer, context_of, link

if TYPE_CHECKING:
    from sharebroker_protocol.records.batch_builder import Header

_MAX_LINKS: Final = 128

_RETRY_AFTER: Final = 0.01
"""Seconds without a new attempt after the limit was reached."""


class Placed(Protocol):
    """A batch with a known outcome; `sent_at` is in seconds since the Unix epoch."""

    topic: str
    partition: int
    base_offset: int
    sent_at: float
    error: KafkaError | None


class RecordTraces:
    """Starts the traces of records; none before `full_until`, in seconds since the Unix epoch."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.full_until = 0.0

    def left_out(self) -> int:
        """Returns how many records to skip before the next one that is traced.

        Callers that count the skipped records need not call `begin` for them. 0 while a span is current.
        """
        return 0 if self._tracer.current() is not None else self._tracer.left_out()

    def begin(self, topic: str, headers: Iterable[Header], now: float) -> Span | None:
        """Starts the span of a record; its headers must then carry the context.

        Returns None if the limit is reached, and for a record whose headers have a trace context.
        """
        if any(name == PARENT for name, _ in headers):
            return None
        parent = self._tracer.current()
        if not self._tracer.room(parent):
            self.full_until = now + _RETRY_AFTER
            return None
        about = names.about(names.CREATE, names.CREATE, topic)
        span = self._tracer.start(f"create {topic}", parent, SpanKind.PRODUCER, about)
        return span if span is not None and span.is_recording() else None

    def headers(self, span: Span) -> list[Header]:
        """Returns the headers that carry the span's context."""
        return [(name, value.encode()) for name, value in context_of(span).headers]

    def of_batch(self, batch: Placed) -> BatchTraces:
        """Returns the tracing of a batch."""
        return BatchTraces(self._tracer, batch)


class BatchTraces:
    """The traced records of one batch, by their index in it."""

    __slots__ = ("_batch", "_spans", "_tracer")

    def __init__(self, tracer: Tracer, batch: Placed) -> None:
        self._tracer = tracer
        self._batch = batch
        self._spans: list[tuple[int, Span]] = []

    def add(self, index: int, span: Span) -> None:
        """Adds a traced record."""
        self._spans.append((index, span))

    def settled(self) -> None:
        """Ends the spans: the batch was appended or failed."""
        spans, self._spans = self._spans, []
        if not spans:
            return
        batch = self._batch
        self._sent([span for _, span in spans])
        for index, span in spans:
            span.set_attribute(names.PARTITION, str(batch.partition))
            if batch.error is None:
                span.set_attribute(names.OFFSET, batch.base_offset + index)
            self._tracer.end(span, batch.error)

    def _sent(self, records: Sequence[Span]) -> None:
        """Adds one `send` span to the first record's trace, linked with the other records."""
        batch = self._batch
        about = names.about(names.SEND, names.SEND, batch.topic, batch.partition)
        about[names.COUNT] = len(records)
        first, *others = map(context_of, records)
        sent = self._tracer.start(
            f"send {batch.topic}", first, SpanKind.CLIENT, about, others[:_MAX_LINKS], batch.sent_at or None
        )
        if sent is None:
            return
        named = context_of(sent)
        for record in records[1:]:
            link(record, named)
        self._tracer.end(sent, batch.error)
