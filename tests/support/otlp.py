"""An OTLP receiver in the test's own process."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from sharebroker.cli.jaeger import FinishedSpan, SpanName


class Collector:
    """Keeps all requests; `headers` are the metadata of the calls, `paths` their paths over HTTP."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.metrics: list[metrics_service_pb2.ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.keep(request, {str(name): str(value) for name, value in context.invocation_metadata()})
        if isinstance(request, trace_service_pb2.ExportTraceServiceRequest):
            return trace_service_pb2.ExportTraceServiceResponse()
        return metrics_service_pb2.ExportMetricsServiceResponse()

    def keep(self, request: Any, headers: dict[str, str]) -> None:
        """Stores a request."""
        self.headers.append(headers)
        traces = isinstance(request, trace_service_pb2.ExportTraceServiceRequest)
        (self.requests if traces else self.metrics).append(request)

    def spans(self) -> list[FinishedSpan]:
        """Returns all spans, in the order of their start."""
        spans = [
            _finished_span(span, _attributes(of.resource.attributes))
            for request in list(self.requests)
            for of in request.resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]
        return sorted(spans, key=lambda span: span.begun)


def _finished_span(span: Any, resource: dict[str, Any]) -> FinishedSpan:
    attributes = _attributes(span.attributes)
    error = span.status.message or attributes.get("error.type", "failed") if span.status.code == 2 else ""
    return FinishedSpan(
        SpanName(span.trace_id.hex(), span.span_id.hex()),
        span.parent_span_id.hex(),
        span.name,
        resource["service.name"],
        span.start_time_unix_nano / 1e9,
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        error,
        attributes,
        tuple(SpanName(link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    return getattr(value, str(value.WhichOneof("value")))


class _Posts(BaseHTTPRequestHandler):
    """Receives OTLP over HTTP for the server's collector."""

    server: _HttpCollector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            kind = _KINDS[self.path.partition("?")[0]]
            self.server.collector.keep(kind.FromString(body), dict(self.headers.items()))
        self.send_response(status)
        if status == 302:
            self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server has it
        """Discards it."""


_KINDS: Final[dict[str, Any]] = {
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
}


class _HttpCollector(ThreadingHTTPServer):
    """`statuses` are the responses to the next requests, before all succeed; `paths` their paths."""

    def __init__(self, collector: Collector) -> None:
        super().__init__(("127.0.0.1", 0), _Posts)
        self.collector = collector
        self.statuses: list[int] = []
        self.paths: list[str] = []


@contextlib.contextmanager
def collecting_over_http(*statuses: int) -> Iterator[Collector]:
    """Provides a collector on a free port; the first requests get these statuses."""
    collector = Collector()
    with _HttpCollector(collector) as server:
        collector.address = f"127.0.0.1:{server.server_port}"
        collector.paths, server.statuses = server.paths, list(statuses)
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Provides a collector on a free port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(4))
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(collector, server)
    add = metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server
    add(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    collector.address = f"127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
