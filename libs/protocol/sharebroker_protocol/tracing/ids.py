"""Ids of new traces and spans, which agree with the ratio of sampled traces."""

from __future__ import annotations

import random

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from typing_extensions import override

from sharebroker_protocol.tracing.sampling import LOW, Sampling


class SampledIds(IdGenerator):
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
