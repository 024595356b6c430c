"""Log lines that belong to a trace carry its id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

from sharebroker_protocol import tracing
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer, context_of
from sharebroker_server.broker.logs import add_trace


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    provider = TracerProvider(shutdown_on_exit=False)
    limit = SpanLimit(1.0, 10, lambda: 0.0)
    made = Tracer(provider.get_tracer("test"), Sampling(1.0, True), limit, lambda: 1.0, lambda: 0.0)
    tracing.turn(made)
    yield made
    tracing.turn(None)


def test_log_line_inside_a_span_has_its_trace_id(tracer: Tracer) -> None:
    span = tracer.start("call", None, SpanKind.SERVER, {})
    assert span is not None
    context = context_of(span)
    with tracer.within(span):
        line = add_trace(None, "info", {"event": "x"})
    assert line == {
        "event": "x",
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
    }
    assert add_trace(None, "info", {"event": "x"}) == {"event": "x"}


def test_log_line_outside_a_span_is_unchanged() -> None:
    assert add_trace(None, "info", {"event": "x"}) == {"event": "x"}
