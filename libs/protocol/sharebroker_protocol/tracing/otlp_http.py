"""OTLP over HTTP: protobuf by POST, for collectors that take no gRPC. Imports OpenTelemetry's SDK."""

from __future__ import annotations

import gzip
import logging
import os
import ssl
import threading
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from sharebroker_protocol import clock
from sharebroker_protocol.tracing.env_validation import wrong

TRACES: Final = "TRACES"
METRICS: Final = "METRICS"

_log: Final = logging.getLogger("opentelemetry.sharebroker.over_http")  # where `setup.heed` listens
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""What the protocol has tried again: OTLP specification, OTLP/HTTP response."""

_PAUSE: Final = 1.0
_MOST_ANSWER: Final = 64 * 1024


class Post:
    """Sends one kind to a URL, with the headers, timeout and files that OpenTelemetry's variables name.

    Raises KafkaError INVALID_CONFIG for files that are no certificates.
    """

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self._within = float(_variable(kind, "TIMEOUT") or 10)
        self._headers = dict(parse_env_headers(_variable(kind, "HEADERS"), liberal=True))
        self._headers["content-type"] = "application/x-protobuf"
        self._packed = _variable(kind, "COMPRESSION").lower() == "gzip"
        if self._packed:
            self._headers["content-encoding"] = "gzip"
        told = [HTTPSHandler(context=_context(kind))] if url.startswith("https:") else []
        self._opener = build_opener(_Stays, *told)

    def send(self, body: bytes) -> bool:
        """Whether it was taken; tried again as long as there is time, unless it was refused for good."""
        if self._packed:
            body = gzip.compress(body)
        until, pause = clock.now() + self._within, _PAUSE
        while True:
            why, again = self._tried(body, until - clock.now())
            if not why:
                return True
            if not again or clock.now() + pause >= until or self._stopped.wait(pause):
                _log.warning("%s: %s", self._url.partition("?")[0], why)
                return False
            pause *= 2

    def stop(self) -> None:
        """Nothing is tried again from here on."""
        self._stopped.set()

    def _tried(self, body: bytes, within: float) -> tuple[str, bool]:
        """Why it was not taken, "" if it was, and whether it may be later."""
        try:
            request = Request(self._url, body, self._headers, method="POST")
            with self._opener.open(request, timeout=max(within, 0.01)) as answer:
                answer.read(_MOST_ANSWER)
        except HTTPError as refusal:
            with refusal:
                return f"HTTP status {refusal.code}", refusal.code in _AGAIN
        except (OSError, HTTPException, ValueError) as failure:
            return str(getattr(failure, "reason", failure)) or type(failure).__name__, True
        return "", False


class Spans(SpanExporter):
    """Sends spans to a URL."""

    def __init__(self, url: str) -> None:
        self._post = Post(url, TRACES)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        sent = self._post.send(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS if sent else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._post.stop()


class Metrics:
    """Sends metrics to a URL."""

    def __init__(self, url: str) -> None:
        self._post = Post(url, METRICS)

    def export(self, data: MetricsData) -> bool:
        """Whether they were taken."""
        return self._post.send(encode_metrics(data).SerializeToString())

    def shutdown(self) -> None:
        """Give up what is under way."""
        self._post.stop()


class _Stays(HTTPRedirectHandler):
    """Headers may have secrets, which are nobody else's: who sends us elsewhere refuses."""

    def redirect_request(self, *_: Any) -> None:
        """See HTTPRedirectHandler."""


def _variable(kind: str, name: str) -> str:
    own = os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}_{name}")
    return own or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def _context(kind: str) -> ssl.SSLContext:
    name = "CERTIFICATE"
    try:
        context = ssl.create_default_context(cafile=_variable(kind, name) or None)
        if certificate := _variable(kind, name := "CLIENT_CERTIFICATE"):
            # Asked for a password it would wait at the terminal.
            context.load_cert_chain(certificate, _variable(kind, "CLIENT_KEY") or None, password="")
    except OSError as failure:  # SSLError is one
        raise wrong(f"OTEL_EXPORTER_OTLP_{name}", None, "a file of certificates in PEM") from failure
    return context
