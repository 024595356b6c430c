"""Trace ids that samplers of other processes keep."""

from __future__ import annotations

import pytest

from sharebroker_protocol.tracing.ids import SampledIds
from sharebroker_protocol.tracing.sampling import LOW
from sharebroker_protocol.tracing.settings import parse


@pytest.mark.parametrize("ratio", ["0.125", "1", "0"])
def test_trace_ids_are_kept_by_samplers_of_at_least_our_ratio(ratio: str) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    sampler = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio}
    sampling = parse({**endpoint, **sampler}).sampling
    generator = SampledIds(sampling)
    ids = {generator.generate_trace_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(0 < trace_id & LOW < sampling.bound or sampling.bound == 0 for trace_id in ids)
    assert len({generator.generate_span_id() for _ in range(50)}) == 50
