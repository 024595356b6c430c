"""Finished spans, as read back from a tracing backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_CHILD: Final = "CHILD_OF"


class SpanName(NamedTuple):
    """A span's trace id and span id, in hexadecimal."""

    trace: str
    span: str


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """A finished span. Times are in seconds, `begun` since the Unix epoch; `error` is empty for success."""

    name: SpanName
    parent: str
    operation: str
    service: str
    begun: float
    seconds: float
    error: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[SpanName, ...] = ()

    @property
    def ended(self) -> float:
        """The end of the span, in seconds since the Unix epoch."""
        return self.begun + self.seconds


def of_jaeger(document: Mapping[str, Any]) -> list[FinishedSpan]:
    """Returns the spans of a response of Jaeger's /api/traces, ordered by start time."""
    spans = [span for trace in document.get("data") or () for span in _of_trace(trace)]
    return sorted(spans, key=lambda span: span.begun)


def _of_trace(trace: Mapping[str, Any]) -> Iterator[FinishedSpan]:
    services = {key: process["serviceName"] for key, process in trace["processes"].items()}
    for span in trace["spans"]:
        tags = {tag["key"]: tag["value"] for tag in span.get("tags") or ()}
        named = [
            (reference["refType"], SpanName(reference["traceID"], reference["spanID"]))
            for reference in span.get("references") or ()
        ]
        own = [name for kind, name in named if kind == _CHILD and name.trace == span["traceID"]]
        failed = tags.get("error") in (True, "true")
        yield FinishedSpan(
            SpanName(span["traceID"], span["spanID"]),
            own[0].span if own else "",
            span["operationName"],
            services.get(span["processID"], ""),
            span["startTime"] / 1e6,
            span["duration"] / 1e6,
            str(tags.get("otel.status_description") or tags.get("error.type") or "failed") if failed else "",
            tags,
            tuple(name for _, name in named if name not in own[:1]),
        )
