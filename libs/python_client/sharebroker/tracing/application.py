"""Traces of an application that has set OpenTelemetry up for itself: records join what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sharebroker import clock
from sharebroker.tracing import switch
from sharebroker.tracing.limit import SpanLimit
from sharebroker.tracing.sampling import Sampling

if TYPE_CHECKING:
    from sharebroker.tracing.publishing import RecordTraces
    from sharebroker.tracing.tracer import Tracer


def record_traces() -> RecordTraces | None:
    """What begins the traces of a producer's records; None where nobody traces.

    An application that has not imported OpenTelemetry's SDK has set up none.
    """
    if switch.on is None and "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from sharebroker.tracing.publishing import RecordTraces

    tracer = switch.on or _of_provider()
    return None if tracer is None else RecordTraces(tracer)


def _of_provider() -> Tracer | None:
    """The application's own sampler and processor decide what is kept."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from sharebroker.tracing.tracer import Tracer

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        return None
    limit = SpanLimit(1e9, 1 << 30, clock.now)
    return Tracer(provider.get_tracer("sharebroker"), Sampling(1.0, True), limit, lambda: 0, clock.now)
