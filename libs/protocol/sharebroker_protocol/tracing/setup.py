"""Sets up OpenTelemetry's SDK: spans wait in a bounded queue and are exported by a thread of their own.

Exports over HTTP have bounded responses, and no secrets in error texts.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from sharebroker_protocol import clock
from sharebroker_protocol.tracing.exporters import Warn, redirect_log, resource, span_exporter
from sharebroker_protocol.tracing.ids import SampledIds
from sharebroker_protocol.tracing.sampling import SpanLimit
from sharebroker_protocol.tracing.settings import TracingSettings, invalid_variables
from sharebroker_protocol.tracing.tracer import Tracer

FLUSH_TIMEOUT: Final = 2.0
"""Seconds to export the remaining spans at shutdown."""


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


def begin(settings: TracingSettings, attributes: Mapping[str, str], warn: Warn) -> Exporting:
    """Starts the export of spans; `settings.traces` must not be None. Raises KafkaError INVALID_CONFIG."""
    assert settings.traces is not None
    redirect_log(warn)
    with invalid_variables():
        return _begin(settings, settings.traces, attributes)


def _begin(settings: TracingSettings, endpoint: str, attributes: Mapping[str, str]) -> Exporting:
    exporter = span_exporter(endpoint, http=settings.traces_over_http)
    queue = settings.queue
    provider = TracerProvider(
        ALWAYS_ON, resource(attributes), shutdown_on_exit=False, id_generator=SampledIds(settings.sampling)
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
