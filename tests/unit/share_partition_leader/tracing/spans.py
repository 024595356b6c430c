"""A tracer whose finished spans tests can read."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer

PARENT = TraceContext(1, 2, 1, "")


class FinishedSpans:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        limit = SpanLimit(1.0, 1000, lambda: 0.0)
        self.tracer = Tracer(
            provider.get_tracer("test"), Sampling(1.0, True), limit, lambda: 1.0, lambda: 0.0
        )

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def names(self) -> list[str]:
        return [span.name for span in self.all()]
