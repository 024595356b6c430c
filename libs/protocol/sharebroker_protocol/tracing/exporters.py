"""How telemetry is exported: exporters, the resource that they describe, and the log of failed exports.

Imports OpenTelemetry's SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import SpanExporter
from typing_extensions import override

from sharebroker_protocol import clock

QUIET_PERIOD: Final = 60.0
"""Minimum seconds between two warnings about failed exports."""

_HTTP_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"

Warn = Callable[[str, str], None]
"""Receives the logger's name and the reason of a failed export."""

_MAX_RESPONSE: Final = 64 * 1024


def span_exporter(endpoint: str, *, http: bool) -> SpanExporter:
    """Returns an exporter over HTTP or gRPC."""
    if http:
        return HttpSpanExporter(endpoint=endpoint, session=ExportSession())
    return GrpcSpanExporter(endpoint=endpoint)


def resource(attributes: Mapping[str, str]) -> Resource:
    """Returns `attributes`, overridden by OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.

    Other resource detectors are not used: they export command lines, which may contain secrets.
    """
    return Resource(attributes).merge(OTELResourceDetector().detect())


class ExportSession(requests.Session):
    """Session for an exporter, which retries failed requests itself.

    Headers and the query of the URL may contain secrets. So redirects fail, and errors name only their cause:
    the texts of requests contain the URL.
    """

    @override
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **(options | {"stream": True}))
            with response:
                response.raw.read(_MAX_RESPONSE)
        except requests.RequestException as error:
            raise type(error)(_cause(error)) from None
        if response.is_redirect:  # the exporter counts a status below 400 as success
            raise requests.TooManyRedirects(f"HTTP status {response.status_code}: redirects are not followed")
        return response


def _cause(error: BaseException) -> str:
    """Returns the name of the error, and the text of the system error that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(error).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def redirect_log(warn: Warn) -> None:
    """Calls `warn` at most once a minute, instead of writing OpenTelemetry's log."""
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.handlers = [_RateLimited(warn)]


class _RateLimited(logging.Handler):
    def __init__(self, warn: Warn) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn
        self._next = 0.0
        self._cause = ""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_HTTP_EXPORTER) and record.getMessage().startswith("Transient error"):
            self._cause = record.getMessage()  # a retry follows; its failure is logged as well
            return
        if clock.now() < self._next:
            return
        self._next = clock.now() + QUIET_PERIOD
        cause, self._cause = self._cause, ""
        self._warn(record.name, f"{record.getMessage()} {cause}".rstrip())
