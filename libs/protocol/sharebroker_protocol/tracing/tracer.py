"""Creates spans, subject to sampling and the span limit. Imports OpenTelemetry's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

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
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.sampling import Sampling

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
        self._new_traces = limit.stories() if sampling.ratio < 1 else None
        self._tracer = tracer
        self._draw = draw
        self._now = now

    def left_out(self) -> int:
        """Returns how many new traces to skip before the next; callers count them themselves."""
        return self.sampling.left_out(self._draw())

    def begins(self) -> bool:
        """Whether to start a new trace."""
        return not self.left_out() and self.limit.room()

    def room(self, parent: TraceContext | None) -> bool:
        """Whether a record may be traced now, below `parent` or as a new trace.

        With a ratio below 1, new traces are limited to those that fit completely.
        """
        if not self.limit.room():
            return False
        return parent is not None or self._new_traces is None or self._new_traces.take()

    def joins(self, context: TraceContext | None) -> bool:
        """Whether to add spans to a trace of another process."""
        return context is not None and self.sampling.joins(context) and self.limit.room()

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
