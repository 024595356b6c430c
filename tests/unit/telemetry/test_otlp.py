"""Metrics in the form of OTLP."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import Gauge, MetricsData, ResourceMetrics, ScopeMetrics, Sum
from opentelemetry.sdk.metrics.export import Histogram as Buckets
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sharebroker_server.telemetry.metrics import Histogram, counter, gauge, seconds_of
from sharebroker_server.telemetry.otlp import metric


def test_counters_are_exported_as_sums() -> None:
    made = metric(counter("sharebroker_x_total", "Some.", [(("a", "1", "b", "2"), 7)]), 1, 2)
    assert (made.name, made.description) == ("sharebroker_x", "Some.")
    assert isinstance(made.data, Sum)
    (point,) = made.data.data_points
    assert (made.data.is_monotonic, point.attributes, point.value) == (True, {"a": "1", "b": "2"}, 7)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1, 2)


def test_gauges_are_exported_as_gauges() -> None:
    made = metric(gauge("sharebroker_y", "Now.", [((), 3.5), (("up", "a"), True)]), 1, 2)
    assert isinstance(made.data, Gauge)
    assert [repr(point.value) for point in made.data.data_points] == ["3.5", "1.0"]


def test_histogram_buckets_are_not_cumulative() -> None:
    one, other = Histogram(), Histogram()
    for number in (0, 1, 3, 1000):
        one.add(number)
    family = seconds_of("sharebroker_z_seconds", "Times.", "k", {"one": one, "other": other}, low=1, high=3)
    made = metric(family, 1, 2)
    assert made.unit == "s"
    assert isinstance(made.data, Buckets)
    first, second = made.data.data_points
    assert list(first.explicit_bounds) == [2e-6, 4e-6, 8e-6]
    assert list(first.bucket_counts) == [2, 1, 0, 1]
    assert (first.count, round(first.sum, 6), first.attributes) == (4, 0.001004, {"k": "one"})
    assert (second.count, list(second.bucket_counts)) == (0, [0, 0, 0, 0])
    scope = ScopeMetrics(InstrumentationScope("test"), [made], "")
    encode_metrics(MetricsData([ResourceMetrics(Resource({}), [scope], "")]))
