"""Sets up OpenTelemetry's SDK: a bounded queue of spans, exported by a thread of its own."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from typing_extensions import override

from sharebroker_protocol import clock
from sharebroker_protocol.tracing import otlp_http
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.sampling import LOW, Sampling
from sharebroker_protocol.tracing.settings import TracingSettings
from sharebroker_protocol.tracing.tracer import Tracer

LAST_WORDS: Final = 2.0
"""Seconds for the last export when the process ends."""

QUIET: Final = 60.0
"""Seconds between two warnings about failed exports."""

Warn = Callable[[str, str], None]
"""Receives the logger's name and the message."""


@dataclass(slots=True)
class Exporting:
    """The installed exporter; `tracer` creates spans."""

    tracer: Tracer
    provider: TracerProvider
    exporter: SpanExporter

    def stop(self) -> None:
        """Exports the queued spans; blocks for at most twice `LAST_WORDS`."""
        last = threading.Thread(target=self.provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(LAST_WORDS)
        if last.is_alive():
            self.exporter.shutdown()
            last.join(LAST_WORDS)


def resource(attributes: Mapping[str, str]) -> Resource:
    """Returns the resource: `attributes`, overridden by OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.

    Other detectors are not used, because they export command lines, which may contain secrets.
    """
    return Resource(attributes).merge(OTELResourceDetector().detect())


def begin(settings: TracingSettings, attributes: Mapping[str, str], warn: Warn) -> Exporting:
    """Starts exporting spans. `settings.traces` must be set."""
    assert settings.traces is not None
    heed(warn)
    exporter = _exporter(settings.traces, settings.traces_over_http)
    queue = settings.queue
    provider = TracerProvider(
        ALWAYS_ON, resource(attributes), shutdown_on_exit=False, id_generator=_Ids(settings.sampling)
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=queue.most,
            schedule_delay_millis=queue.every * 1000,
            max_export_batch_size=queue.at_once,
        )
    )
    limit = SpanLimit(queue.rate, queue.burst, clock.now)
    sdk_tracer = provider.get_tracer("sharebroker")
    tracer = Tracer(sdk_tracer, settings.sampling, limit, lambda: 1.0 - random.random(), clock.now)
    return Exporting(tracer, provider, exporter)


def _exporter(endpoint: str, http: bool) -> SpanExporter:
    return otlp_http.Spans(endpoint) if http else OTLPSpanExporter(endpoint=endpoint)


def heed(warn: Warn) -> None:
    """Replaces OpenTelemetry's log output by calls of `warn`, at most once a minute."""
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.handlers = [_RateLimitedHandler(warn)]


class _RateLimitedHandler(logging.Handler):
    def __init__(self, warn: Warn) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn
        self._next = 0.0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if clock.now() < self._next:
            return
        self._next = clock.now() + QUIET
        self._warn(record.name, record.getMessage())


class _Ids(IdGenerator):
    """Generates trace ids that every ratio sampler with the same ratio keeps."""

    def __init__(self, sampling: Sampling) -> None:
        self._bound = max(sampling.bound, 1)
        self._random = RandomIdGenerator()

    @override
    def generate_span_id(self) -> int:
        return self._random.generate_span_id()

    @override
    def generate_trace_id(self) -> int:
        return (random.getrandbits(64) << 64) | (random.randrange(self._bound) & LOW) or 1
