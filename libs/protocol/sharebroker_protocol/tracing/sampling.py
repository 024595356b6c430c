"""Which traces are kept: the samplers of OpenTelemetry's specification, decided without making a span."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.tracing.context import TraceContext

LOW: Final = (1 << 64) - 1
"""The part of a trace id by which `traceidratio` decides."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """`ratio` of the traces that begin here are kept; with `parent_based` others' are as they decided."""

    ratio: float
    parent_based: bool

    @property
    def bound(self) -> int:
        """The low half of the ids of traces that are kept lies below."""
        return round(self.ratio * (LOW + 1))

    @property
    def never(self) -> bool:
        """Whether nothing is kept, whatever others decide."""
        return not self.parent_based and self.bound == 0

    def left_out(self, lot: float) -> int:
        """How many traces in turn do not begin before one does, by one lot (above 0, to 1) for all of them.

        As often so many as if each had drawn a lot of its own.
        """
        if self.ratio >= 1:
            return 0
        if self.ratio <= 0:
            return sys.maxsize
        return int(min(math.log(lot) / math.log1p(-self.ratio), sys.maxsize))

    def joins(self, context: TraceContext) -> bool:
        """Whether spans are added to a trace that began elsewhere."""
        return context.sampled if self.parent_based else context.trace_id & LOW < self.bound


SAMPLERS: Final[Mapping[str, tuple[bool, float | None]]] = {
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}
"""By the names of OTEL_TRACES_SAMPLER: whether others' decision counts, and the ratio unless that is told."""
