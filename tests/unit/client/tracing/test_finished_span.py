"""Spans parsed from a response of Jaeger."""

from __future__ import annotations

from typing import Any

from sharebroker.tracing.finished_span import of_jaeger

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def span(name: str, parent: str, operation: str, at: int, **tags: Any) -> dict[str, Any]:
    references = [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": parent}] if parent else []
    return {
        "traceID": TRACE,
        "spanID": name,
        "operationName": operation,
        "references": references,
        "startTime": at,
        "duration": 1500,
        "tags": [{"key": key.replace("__", "."), "value": value} for key, value in tags.items()],
        "processID": "p1",
    }


DOCUMENT = {
    "data": [
        {
            "traceID": TRACE,
            "spans": [
                span("04", "03", "lock lost orders", 1_004_000, error=True, otel__status_description="late"),
                span("03", "01", "acquire orders", 1_003_000, messaging__consumer__group__name="billing"),
                span("01", "", "create orders", 1_000_000),
                span("05", "01", "acquire orders", 1_005_000, messaging__consumer__group__name="audit"),
                span("02", "gone", "pkg.v1.Leader/Produce", 1_001_000),
            ],
            "processes": {"p1": {"serviceName": "server"}},
        }
    ]
}


def test_spans_are_read_in_their_order() -> None:
    spans = of_jaeger(DOCUMENT)
    assert [span.name.span for span in spans] == ["01", "02", "03", "04", "05"]
    first, *_, lost, _ = spans
    assert (first.parent, first.service, first.begun, first.error) == ("", "server", 1.0, "")
    assert (lost.parent, lost.error, round(lost.ended, 4)) == ("03", "late", 1.0055)
    assert of_jaeger({"data": None}) == []
