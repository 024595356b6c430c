"""A client of Jaeger's query API, and finished spans as read back from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.settings import is_http_url

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


_TIMEOUT: Final = 10.0
_MAX_TRACES: Final = 20
_NOT_JAEGER: Final = "does not respond as Jaeger's query API"


class Jaeger:
    """The query API at a URL.

    Every call raises KafkaError INVALID_CONFIG if it does not respond as Jaeger does.
    """

    def __init__(self, url: str) -> None:
        if not is_http_url(url) or not url.isascii() or not url.isprintable() or " " in url:
            shown = repr(url) if "@" not in url else "a URL with credentials"
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--jaeger must be http://HOST:PORT, not {shown}.")
        self._url = url.rstrip("/")

    def find(self, attributes: Mapping[str, str], since: float, until: float) -> list[list[FinishedSpan]]:
        """Returns traces with a span that has all the attributes, newest first; times are in seconds."""
        query = {
            "tags": json.dumps(dict(attributes)),
            "start": str(int(since * 1e6)),
            "end": str(int(until * 1e6)),
            "limit": str(_MAX_TRACES),
        }
        found: dict[str, list[FinishedSpan]] = {}
        for service in self._services():
            for span in self._spans(f"/api/traces?{urlencode({'service': service, **query})}"):
                found.setdefault(span.name.trace, []).append(span)
            if found:  # Jaeger returns complete traces
                break
        return sorted(found.values(), key=lambda spans: spans[0].begun, reverse=True)

    def spans(self, named: Sequence[SpanName]) -> list[FinishedSpan]:
        """Returns single spans of other traces, of at most 20 traces."""
        found = []
        for trace in list(dict.fromkeys(name.trace for name in named))[:_MAX_TRACES]:
            spans = self._spans(f"/api/traces/{quote(trace)}", missing={})
            found += [span for span in spans if span.name in named]
        return found

    def _services(self) -> list[str]:
        services = self._get("/api/services").get("data") or []
        if not isinstance(services, list) or not all(isinstance(name, str) for name in services):
            raise self._error(_NOT_JAEGER)
        return services

    def _spans(self, path: str, missing: dict[str, Any] | None = None) -> list[FinishedSpan]:
        try:
            return of_jaeger(self._get(path, missing))
        except (AttributeError, LookupError, TypeError, ValueError) as failure:
            raise self._error(_NOT_JAEGER) from failure

    def _get(self, path: str, missing: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            with urlopen(self._url + path, timeout=_TIMEOUT) as response:
                document = json.load(response)
        except HTTPError as failure:
            with failure:
                if missing is not None and failure.code == 404:
                    return missing
                raise self._error(f"returned {failure.code} for {path.partition('?')[0]}") from failure
        except OSError as failure:
            raise self._error(f"does not respond ({getattr(failure, 'reason', failure)})") from failure
        except (HTTPException, ValueError) as failure:
            raise self._error(_NOT_JAEGER) from failure
        if not isinstance(document, dict):
            raise self._error(_NOT_JAEGER)
        return document

    def _error(self, problem: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{self._url} {problem}. Set --jaeger to Jaeger's query port (default 16686).",
        )
