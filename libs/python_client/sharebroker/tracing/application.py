"""Traces of an application that has set up OpenTelemetry itself: records join its traces."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sharebroker_protocol import clock, tracing
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from sharebroker_protocol.records.record import Record
    from sharebroker_protocol.tracing.tracer import RecordTraces, Tracer

_NOTHING: Final = nullcontext()


def record_traces() -> RecordTraces | None:
    """Returns the tracing of a producer's records; None if tracing is off."""
    tracer = _tracer()
    if tracer is None:
        return None
    from sharebroker_protocol.tracing.tracer import RecordTraces

    return RecordTraces(tracer)


def processing(record: Record, group_id: str, member_id: str) -> AbstractContextManager[None]:
    """Returns a context manager that traces the processing of a record; it does nothing if tracing is off."""
    tracer = _tracer()
    if tracer is None:
        return _NOTHING
    from sharebroker.tracing.processing import processed

    return processed(tracer, record, group_id, member_id)


def traceparent() -> str | None:
    """Returns the `traceparent` of the current span; None if tracing is off."""
    if _tracer() is None:
        return None
    from sharebroker.tracing import processing as of_records

    return of_records.traceparent()


def _tracer() -> Tracer | None:
    """Returns the tracer, without importing OpenTelemetry if the application has not imported its SDK."""
    if tracing.on is None and "opentelemetry.sdk.trace" not in sys.modules:
        return None
    return tracing.on or _of_provider()


def _of_provider() -> Tracer | None:
    """Returns a tracer for the application's provider, whose sampler and processor decide what is kept."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        return None
    return _of(provider)


@lru_cache(maxsize=1)
def _of(provider: TracerProvider) -> Tracer:
    from sharebroker_protocol.tracing.tracer import Tracer

    limit = SpanLimit(1e9, 1 << 30, clock.now)
    return Tracer(provider.get_tracer("sharebroker"), Sampling(1.0, True), limit, lambda: 1.0, clock.now)
