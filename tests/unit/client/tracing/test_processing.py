"""The `process` span around the processing of a record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sharebroker.tracing import application
from sharebroker_protocol import tracing as process
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, AcquiredRecords, Record
from sharebroker_protocol.tracing.context import TraceContext

MADE = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
DROPPED = MADE._replace(flags=0)


class Tracing:
    """A program's OpenTelemetry, and the spans that it exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.own = self.provider.get_tracer("program")

    def of_records(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == "process orders"]


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracing]:
    """A program that set its own tracer provider, as `set_tracer_provider` does once."""
    made = Tracing()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    yield made
    made.provider.shutdown()


class Sink:
    """Stores acknowledgements."""

    def acknowledge(self, record: Record, kind: AcknowledgeType, detail: Any = None) -> Any:
        record.acknowledgement = cast("Any", SimpleNamespace(kind=kind))


def record(context: TraceContext | None) -> Record:
    headers = [(name, value.encode()) for name, value in context.headers] if context else []
    raw = SimpleNamespace(offset=7, timestamp=0, key=None, value=b"secret", headers=headers)
    acquisition = AcquiredRecords(("id", "orders"), 3, (5, 9), cast("Any", Sink()))
    acquisition.delivery_count = 2
    return Record(raw, acquisition)


def test_process_span_joins_trace_of_record(tracing: Tracing) -> None:
    one = record(MADE)
    with application.processing(one, "billing", "m"):
        inside = trace.get_current_span().get_span_context()
        assert application.traceparent() == f"00-{MADE.trace_id:032x}-{inside.span_id:016x}-01"
        one.accept()
    (span,) = tracing.of_records()
    assert span.context == inside
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (MADE.trace_id, MADE.span_id)
    assert span.kind is trace.SpanKind.CONSUMER
    assert dict(span.attributes or {}) == {
        "messaging.system": "sharebroker",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 7,
        "messaging.consumer.group.name": "billing",
        "messaging.client.id": "m",
        "messaging.sharebroker.delivery_count": 2,
        "messaging.sharebroker.settled": "accept",
    }
    assert not span.links
    assert application.traceparent() is None


def test_process_span_links_to_current_span(tracing: Tracing) -> None:
    with tracing.own.start_as_current_span("shift") as shift:
        with application.processing(record(MADE), "billing", "m"):
            pass
        with application.processing(record(None), "billing", "m"):
            pass
    linked, below = tracing.of_records()
    assert [link.context.span_id for link in linked.links] == [shift.get_span_context().span_id]
    assert below.parent is not None
    assert below.parent.span_id == shift.get_span_context().span_id


def test_record_without_trace_starts_one(tracing: Tracing) -> None:
    with application.processing(record(None), "billing", "m"):
        pass
    (span,) = tracing.of_records()
    assert span.parent is None


def test_sampling_decision_of_publisher_is_kept(tracing: Tracing) -> None:
    with application.processing(record(DROPPED), "billing", "m"):
        assert application.traceparent() is None
    assert not tracing.of_records()


@pytest.mark.parametrize(
    ("failure", "kind", "description"),
    [
        (ValueError("the secret"), "ValueError", "ValueError"),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Too late."), "REQUEST_TIMED_OUT", "Too late."),
    ],
)
def test_exception_is_recorded_and_raised(
    tracing: Tracing, failure: Exception, kind: str, description: str
) -> None:
    with pytest.raises(type(failure)), application.processing(record(MADE), "billing", "m"):
        raise failure
    (span,) = tracing.of_records()
    assert (span.attributes or {})["error.type"] == kind
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == description
    assert not span.events


def test_without_tracing_processing_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.on is None
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace")
    nothing = application.processing(record(MADE), "billing", "m")
    assert application.processing(record(None), "g", "n") is nothing
    with nothing, nothing:
        assert application.traceparent() is None
