"""Brings OpenTelemetry's SDK in: spans wait in a bounded queue and leave in a thread of their own."""

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

from sharebroker_protocol import clock
from sharebroker_protocol.tracing import otlp_http
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.sampling import LOW, Sampling
from sharebroker_protocol.tracing.settings import TracingSettings
from sharebroker_protocol.tracing.tracer import Tracer

LAST_WORDS: Final = 2.0
"""Seconds that spans have to leave when the process ends."""

QUIET: Final = 60.0
"""Seconds between two warnings that what is told does not arrive."""

Warn = Callable[[str, str], None]
"""Takes where things do not arrive, and why."""


@dataclass(slots=True)
class Exporting:
    """What was set up; `tracer` makes the spans."""

    tracer: Tracer
    provider: TracerProvider
    exporter: SpanExporter

    def stop(self) -> None:
        """Send what waits, for `LAST_WORDS` at most; blocks."""
        last = threading.Thread(target=self.provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(LAST_WORDS)
        if last.is_alive():
            self.exporter.shutdown()
            last.join(LAST_WORDS)


def resource(attributes: Mapping[str, str]) -> Resource:
    """Who tells: `attributes`, and over them what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say.

    No other detectors: they would tell command lines, which may have secrets.
    """
    return Resource(attributes).merge(OTELResourceDetector().detect())


def begin(settings: TracingSettings, attributes: Mapping[str, str], warn: Warn) -> Exporting:
    """Export spans from here on. `settings.traces` must be told."""
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
    made = provider.get_tracer("sharebroker")
    tracer = Tracer(made, settings.sampling, limit, lambda: 1.0 - random.random(), clock.now)
    return Exporting(tracer, provider, exporter)


def _exporter(endpoint: str, http: bool) -> SpanExporter:
    return otlp_http.Spans(endpoint) if http else OTLPSpanExporter(endpoint=endpoint)


def heed(warn: Warn) -> None:
    """Have `warn` called, once a minute at most, instead of all that OpenTelemetry logs."""
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.handlers = [_Seldom(warn)]


class _Seldom(logging.Handler):
    def __init__(self, warn: Warn) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if clock.now() < self._next:
            return
        self._next = clock.now() + QUIET
        self._warn(record.name, record.getMessage())


class _Ids(IdGenerator):
    """Ids of traces that every sampler by ratio keeps that keeps as many as this one."""

    def __init__(self, sampling: Sampling) -> None:
        self._bound = max(sampling.bound, 1)
        self._random = RandomIdGenerator()

    def generate_span_id(self) -> int:
        """See IdGenerator."""
        return self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        """See IdGenerator."""
        return (random.getrandbits(64) << 64) | (random.randrange(self._bound) & LOW) or 1
