"""Sets up OpenTelemetry's SDK: spans wait in a bounded queue and are exported by a thread of their own.

Exports over HTTP have bounded responses, and no secrets in error texts.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from typing_extensions import override

from sharebroker_protocol import clock
from sharebroker_protocol.tracing.sampling import LOW, Sampling, SpanLimit
from sharebroker_protocol.tracing.settings import TracingSettings, invalid_variables
from sharebroker_protocol.tracing.tracer import Tracer

_MAX_RESPONSE: Final = 64 * 1024


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


FLUSH_TIMEOUT: Final = 2.0
"""Seconds to export the remaining spans at shutdown."""

QUIET_PERIOD: Final = 60.0
"""Minimum seconds between two warnings about failed exports."""

_HTTP_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"

Warn = Callable[[str, str], None]
"""Receives the logger's name and the reason of a failed export."""


@dataclass(slots=True)
class Exporting:
    """The running export; `tracer` creates the spans."""

    tracer: Tracer
    provider: TracerProvider
    exporter: SpanExporter

    def stop(self) -> None:
        """Exports the remaining spans for at most `FLUSH_TIMEOUT` seconds; blocks."""
        last = threading.Thread(target=self.provider.shutdown, name="flush-spans", daemon=True)
        last.start()
        last.join(FLUSH_TIMEOUT)
        if last.is_alive():
            self.exporter.shutdown()
            last.join(FLUSH_TIMEOUT)


def resource(attributes: Mapping[str, str]) -> Resource:
    """Returns `attributes`, overridden by OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.

    Other resource detectors are not used: they export command lines, which may contain secrets.
    """
    return Resource(attributes).merge(OTELResourceDetector().detect())


def begin(settings: TracingSettings, attributes: Mapping[str, str], warn: Warn) -> Exporting:
    """Starts the export of spans; `settings.traces` must not be None. Raises KafkaError INVALID_CONFIG."""
    assert settings.traces is not None
    redirect_log(warn)
    with invalid_variables():
        return _begin(settings, settings.traces, attributes)


def _begin(settings: TracingSettings, endpoint: str, attributes: Mapping[str, str]) -> Exporting:
    exporter = _exporter(endpoint, settings.traces_over_http)
    queue = settings.queue
    provider = TracerProvider(
        ALWAYS_ON, resource(attributes), shutdown_on_exit=False, id_generator=_Ids(settings.sampling)
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=queue.max_size,
            schedule_delay_millis=queue.interval * 1000,
            max_export_batch_size=queue.max_batch,
        )
    )
    limit = SpanLimit(queue.rate, queue.burst, clock.now)
    sdk_tracer = provider.get_tracer("sharebroker")
    tracer = Tracer(sdk_tracer, settings.sampling, limit, lambda: 1.0 - random.random(), clock.now)
    return Exporting(tracer, provider, exporter)


def _exporter(endpoint: str, http: bool) -> SpanExporter:
    if http:
        return HttpSpanExporter(endpoint=endpoint, session=ExportSession())
    return GrpcSpanExporter(endpoint=endpoint)


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


class _Ids(IdGenerator):
    """Trace ids that every ratio sampler with at least our ratio keeps."""

    def __init__(self, sampling: Sampling) -> None:
        self._bound = max(sampling.bound, 1)
        self._random = RandomIdGenerator()

    @override
    def generate_span_id(self) -> int:
        return self._random.generate_span_id()

    @override
    def generate_trace_id(self) -> int:
        return (random.getrandbits(64) << 64) | (random.randrange(self._bound) & LOW) or 1
