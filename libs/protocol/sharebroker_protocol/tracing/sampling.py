"""Decides which traces and spans are kept: OpenTelemetry's samplers, and a limit on spans per second.

The samplers are those of OpenTelemetry's specification, evaluated without creating a span. The limit keeps
the cost of tracing constant under load.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.tracing.context import TraceContext

LOW: Final = (1 << 64) - 1
"""The part of a trace id by which `traceidratio` decides."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Keeps `ratio` of new traces; with `parent_based`, joined traces keep the decision of their origin."""

    ratio: float
    parent_based: bool

    @property
    def bound(self) -> int:
        """Traces are kept if the low half of their id is below this bound."""
        return round(self.ratio * (LOW + 1))

    @property
    def never(self) -> bool:
        """Whether no span is ever kept."""
        return not self.parent_based and self.bound == 0

    def left_out(self, lot: float) -> int:
        """Returns how many new traces to skip before one is kept, from one random number (above 0, to 1).

        The distribution is that of an independent decision for each trace.
        """
        if self.ratio >= 1:
            return 0
        if self.ratio <= 0:
            return sys.maxsize
        return int(min(math.log(lot) / math.log1p(-self.ratio), sys.maxsize))

    def joins(self, context: TraceContext) -> bool:
        """Whether spans are added to a trace of another process."""
        return context.sampled if self.parent_based else context.trace_id & LOW < self.bound


SAMPLERS: Final[Mapping[str, tuple[bool, float | None]]] = {
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}
"""By OTEL_TRACES_SAMPLER: whether it is parent-based, and its ratio (None: OTEL_TRACES_SAMPLER_ARG)."""


SPANS_PER_TRACE: Final = 8
"""The usual number of spans of a record; a trace is started or joined only if they fit."""


class SpanLimit:
    """A token bucket of `rate` spans per second and `burst` at once. `clock` returns seconds."""

    __slots__ = ("_at", "_burst", "_clock", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def of_traces(self) -> SpanLimit:
        """Returns a limit on new traces such that each fits completely."""
        return SpanLimit(self._rate / SPANS_PER_TRACE, max(1, self._burst // SPANS_PER_TRACE), self._clock)

    def has_room(self) -> bool:
        """Whether the spans of a whole trace fit."""
        return self._has(min(SPANS_PER_TRACE, self._burst))

    def take(self, spans: int = 1) -> bool:
        """Takes tokens for spans (at most a full bucket); returns False if there are too few."""
        if not self._has(min(spans, self._burst)):
            return False
        self._tokens -= spans
        return True

    def _has(self, spans: int) -> bool:
        if self._tokens >= spans:
            return True
        at = self._clock()
        self._tokens = min(self._burst, self._tokens + (at - self._at) * self._rate)
        self._at = at
        return self._tokens >= spans
