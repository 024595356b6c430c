"""Metrics by OTLP beside traces: the collector receives what /metrics would serve, without that port."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tracing.conftest import started
from tests.support.client import connected
from tests.support.otlp import Collector, collecting, collecting_over_http
from tests.testkit.brokers import Serve
from tests.testkit.waiting import eventually


def latest(collector: Collector) -> dict[str, Any]:
    """Returns the latest value of each name."""
    return {
        metric.name: metric
        for request in list(collector.metrics)
        for of in request.resource_metrics
        for scope in of.scope_metrics
        for metric in scope.metrics
    }


@pytest.mark.parametrize(
    ("receiver", "protocol"), [(collecting, "grpc"), (collecting_over_http, "http/protobuf")]
)
async def test_metrics_are_exported_to_a_collector(
    receiver: Callable[[], AbstractContextManager[Collector]], protocol: str, tmp_path: Path
) -> None:
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "200"}
    variables["OTEL_EXPORTER_OTLP_PROTOCOL"] = protocol
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")])
    with receiver() as collector, started(serve, collector.url, OTEL_TRACES_EXPORTER="none", **variables):
        async with connected(serve.address) as client:
            topic, _ = await client.create()
            group = await client.group()
            await client.publish(topic, "abc")
            await client.acquire_all(group, topic, 3, "m")

        def acquired() -> bool:
            found = latest(collector).get("sharebroker_share_group_records_acquired")
            return found is not None and sum(point.as_double for point in found.sum.data_points) == 3

        await eventually(acquired, 60)
        names = latest(collector)
        assert names["sharebroker_log_end_offset"].gauge.data_points
        assert names["sharebroker_log_append_seconds"].histogram.data_points[0].count
        assert names["sharebroker_event_loop_lag_seconds"].unit == "s"
    assert not collector.requests
    (resource,) = {str(of.resource) for request in collector.metrics for of in request.resource_metrics}
    assert "sharebroker" in resource
