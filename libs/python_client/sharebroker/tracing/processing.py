"""A `process` span around an application's work on a record. Imports OpenTelemetry's API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import Record
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import of_headers
from sharebroker_protocol.tracing.tracer import Tracer, context_of, fail


@contextmanager
def processed(tracer: Tracer, record: Record, group_id: str, member_id: str) -> Iterator[None]:
    """Makes the span current inside and ends it after; it records an exception and the acknowledge type."""
    span = _started(tracer, record, group_id, member_id)
    if span is None:
        yield
        return
    token = contexts.attach(trace.set_span_in_context(span))
    try:
        yield
    except BaseException as failure:
        _failed(span, failure)
        raise
    finally:
        contexts.detach(token)
        acknowledgement = record.acknowledgement
        if acknowledgement is not None:
            span.set_attribute(names.SETTLED, acknowledgement.kind.name.lower())
        tracer.end(span)


def traceparent() -> str | None:
    """Returns the `traceparent` of the current span; None if no sampled span is current."""
    span = trace.get_current_span()
    return context_of(span).parent if span.get_span_context().trace_flags.sampled else None


def _started(tracer: Tracer, record: Record, group_id: str, member_id: str) -> Span | None:
    """Starts a child of the span that published the record, linked to the current span.

    A record without a trace context joins the current trace, or starts a new one.
    """
    publisher, current = of_headers(record.headers), tracer.current()
    if not (tracer.joins(publisher) if publisher is not None else current is not None or tracer.begins()):
        return None
    attributes = names.about(names.PROCESS, names.PROCESS, record.topic, record.partition)
    attributes |= {names.OFFSET: record.offset, names.GROUP: group_id, names.CLIENT: member_id}
    attributes[names.DELIVERY] = record.delivery_count
    links = [current] if publisher is not None and current is not None else []
    span = tracer.start(f"process {record.topic}", publisher or current, SpanKind.CONSUMER, attributes, links)
    return span if span is not None and span.is_recording() else None


def _failed(span: Span, failure: BaseException) -> None:
    """Records only the type of an exception, since its message may contain record data."""
    if isinstance(failure, KafkaError):
        fail(span, failure)
        return
    kind = type(failure).__qualname__
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))
