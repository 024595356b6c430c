"""A receiver of OTLP in the test's own process: what a collector gets, as it came."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from sharebroker.tracing.told import SpanName, Told


class Collector:
    """Keeps all it is sent; `headers` are the metadata of the calls."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.metrics: list[metrics_service_pb2.ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.headers.append({str(name): str(value) for name, value in context.invocation_metadata()})
        if isinstance(request, trace_service_pb2.ExportTraceServiceRequest):
            self.requests.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()
        self.metrics.append(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()

    def spans(self) -> list[Told]:
        """All spans, in the order in which they began."""
        told = [
            _told(span, _attributes(of.resource.attributes))
            for request in list(self.requests)
            for of in request.resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]
        return sorted(told, key=lambda span: span.begun)


def _told(span: Any, resource: dict[str, Any]) -> Told:
    attributes = _attributes(span.attributes)
    error = span.status.message or attributes.get("error.type", "failed") if span.status.code == 2 else ""
    return Told(
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


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
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
