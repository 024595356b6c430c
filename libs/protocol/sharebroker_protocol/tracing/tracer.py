"""Creates spans, subject to sampling and the span limit. Imports OpenTelemetry's API.

`Tracer` creates every span. `RecordTraces` creates those of publishing: a `create` span per record and one
`send` span per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import BYTES, PARENT, TraceContext
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit

if TYPE_CHECKING:
    from sharebroker_protocol.records.batches import Header


Attributes = Mapping[str, str | int | float | bool]

NOWHERE: Final = Context()
"""No span is current."""


class Tracer:
    """Creates every span. `draw` returns random numbers above 0, to 1; `now` seconds since the Unix epoch."""

    def __init__(
        self,
        tracer: trace.Tracer,
        sampling: Sampling,
        limit: SpanLimit,
        draw: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.sampling = sampling
        self.limit = limit
        self._new_traces = limit.of_traces() if sampling.ratio < 1 else None
        self._tracer = tracer
        self._draw = draw
        self._now = now

    def left_out(self) -> int:
        """Returns how many new traces to skip before the next; callers count them themselves."""
        return self.sampling.left_out(self._draw())

    def begins(self) -> bool:
        """Whether to start a new trace."""
        return not self.left_out() and self.limit.has_room()

    def has_room(self, parent: TraceContext | None) -> bool:
        """Whether a record may be traced now, below `parent` or as a new trace.

        With a ratio below 1, new traces are limited to those that fit completely.
        """
        if not self.limit.has_room():
            return False
        return parent is not None or self._new_traces is None or self._new_traces.take()

    def joins(self, context: TraceContext | None) -> bool:
        """Whether to add spans to a trace of another process."""
        return context is not None and self.sampling.joins(context) and self.limit.has_room()

    def start(
        self,
        name: str,
        parent: TraceContext | None,
        kind: SpanKind,
        attributes: Attributes,
        links: Sequence[TraceContext] = (),
        at: float | None = None,
    ) -> Span | None:
        """Starts a span at `at` or now; without `parent`, a new trace. Returns None at the limit."""
        if not self.limit.take():
            return None
        return self._tracer.start_span(
            name,
            _around(parent) if parent is not None else NOWHERE,
            kind,
            attributes,
            [Link(_span_context(link)) for link in links],
            _nanoseconds(self._now() if at is None else at),
        )

    def inner(self, name: str, parent: TraceContext, attributes: Attributes) -> Span | None:
        """Starts a child span for work within this process."""
        return self.start(name, parent, SpanKind.INTERNAL, attributes)

    def end(self, span: Span, error: KafkaError | None = None, at: float | None = None) -> None:
        """The span is over, well or with an error."""
        if error is not None:
            fail(span, error)
        span.end(_nanoseconds(self._now() if at is None else at))

    def current(self) -> TraceContext | None:
        """The span in which this code runs, if it is kept."""
        if not contexts.get_current():
            return None
        span = trace.get_current_span()
        return context_of(span) if span.get_span_context().trace_flags.sampled else None

    @contextmanager
    def within(self, span: Span | TraceContext | None) -> Iterator[None]:
        """Makes the span current inside; with None, no span is current."""
        token = contexts.attach(_inside(span))
        try:
            yield
        finally:
            contexts.detach(token)


def context_of(span: Span) -> TraceContext:
    """Returns the trace context of a span."""
    its = span.get_span_context()
    return TraceContext(its.trace_id, its.span_id, int(its.trace_flags), its.trace_state.to_header())


def link(span: Span, to: TraceContext) -> None:
    """Adds a link to another span."""
    span.add_link(_span_context(to))


def fail(span: Span, error: KafkaError) -> None:
    """Marks a span as failed, with the error's code and reason."""
    span.set_attribute("error.type", error.code.name)
    reason = error.metadata.get("reason")
    if reason:
        span.set_attribute("messaging.sharebroker.reason", reason)
    span.set_status(Status(StatusCode.ERROR, error.message))


def _span_context(context: TraceContext) -> SpanContext:
    state = TraceState.from_header([context.state]) if context.state else None
    return SpanContext(context.trace_id, context.span_id, True, TraceFlags(context.flags), state)


def _inside(span: Span | TraceContext | None) -> Context:
    if span is None:
        return NOWHERE
    return _around(span) if isinstance(span, TraceContext) else trace.set_span_in_context(span, NOWHERE)


def _around(parent: TraceContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(_span_context(parent)), NOWHERE)


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)


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

    header_bytes: Final = BYTES

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
        if not self._tracer.has_room(parent):
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

    def end(self) -> None:
        """Ends the spans: the batch was appended or failed."""
        spans, self._spans = self._spans, []
        if not spans:
            return
        batch = self._batch
        self._sent([span for _, span in spans])
        for index, span in spans:
            span.set_attribute(names.PARTITION, str(batch.partition))
            if batch.error is None and batch.base_offset >= 0:
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
