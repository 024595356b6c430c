"""Exports by OTLP the metrics that /metrics serves, with the same names and values.

Names of counters lack the suffix `_total`, which Prometheus requires. Imports OpenTelemetry's SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import structlog
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sharebroker_protocol.clock import now
from sharebroker_protocol.tracing import exporters
from sharebroker_protocol.tracing.settings import TracingSettings, invalid_variables
from sharebroker_server.aio import run_in_daemon_thread
from sharebroker_server.telemetry.metrics import YIELD, Exposition, Family, MetricKind, Metrics, Sample

_log = structlog.get_logger()

_SCOPE: Final = InstrumentationScope("sharebroker")
_SLICE: Final = 0.002
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """Exports all metrics periodically, one request at a time. Metrics of a failed export are dropped."""

    def __init__(
        self,
        metrics: Metrics,
        exposition: Exposition,
        settings: TracingSettings,
        attributes: Mapping[str, str],
        warn: exporters.Warn,
    ) -> None:
        exporters.redirect_log(warn)
        self._metrics = metrics
        self._exposition = exposition
        self._interval = settings.metrics_interval
        self._resource = exporters.resource(attributes)
        with invalid_variables():
            self._exporter = _exporter(str(settings.metrics), settings.metrics_over_http)
        self._started = _nanoseconds()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the export."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stops the export, and abandons a request in flight."""
        if self._task is not None:
            self._task.cancel()
            self._exporter.shutdown()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self._export()
            except Exception:  # the next export may succeed
                _log.exception("metrics export failed")

    async def _export(self) -> None:
        await self._exposition.refresh()
        data = _data(await self._read(), self._resource)
        await run_in_daemon_thread(lambda: self._exporter.export(data), "metrics")

    async def _read(self) -> list[Metric]:
        """Reads all families; yields to other tasks between samples, as there may be thousands of series."""
        loop = asyncio.get_running_loop()
        turn_ends, at = loop.time() + _SLICE, _nanoseconds()
        read = []
        for family in self._metrics.families():
            samples = []
            for sample in family.samples:
                if sample is not YIELD:
                    samples.append(sample)
                if loop.time() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = loop.time() + _SLICE
            read.append(metric(family._replace(samples=samples), self._started, at))
        return read


def _exporter(endpoint: str, http: bool) -> MetricExporter:
    if http:
        return HttpMetricExporter(endpoint=endpoint, session=exporters.ExportSession())
    return GrpcMetricExporter(endpoint=endpoint)


def metric(family: Family, started: int, at: int) -> Metric:
    """Converts a family to OTLP; times in nanoseconds since the Unix epoch."""
    unit = "s" if family.name.endswith("_seconds") else ""
    name = family.name.removesuffix("_total") if family.kind is MetricKind.COUNTER else family.name
    return Metric(name, family.help, unit, _points(family, started, at))


def _points(family: Family, started: int, at: int) -> Sum | Gauge | Histogram:
    if family.kind is MetricKind.HISTOGRAM:
        return Histogram(list(_histograms(family.samples, started, at)), _CUMULATIVE)
    points = [
        NumberDataPoint(_attributes(sample.labels), started, at, float(sample.value))
        for sample in family.samples
    ]
    return Gauge(points) if family.kind is MetricKind.GAUGE else Sum(points, _CUMULATIVE, is_monotonic=True)


def _histograms(samples: Iterable[Sample], started: int, at: int) -> Iterator[HistogramDataPoint]:
    """Converts histograms: samples of each are its cumulative buckets, sum and count, in this order."""
    bounds: list[float] = []
    below: list[int] = []
    total = 0.0
    for labels, value, suffix in samples:
        if suffix == "_bucket":
            below.append(int(value))
            if labels[-1] != "+Inf":
                bounds.append(float(labels[-1]))
        elif suffix == "_sum":
            total = value
        else:
            counts = [current - former for current, former in zip(below, [0, *below], strict=False)]
            absent = cast("Any", None)  # minimum and maximum are optional in OTLP
            yield HistogramDataPoint(
                _attributes(labels), started, at, int(value), total, counts, bounds, absent, absent
            )
            bounds, below = [], []


def _attributes(labels: Sequence[str]) -> dict[str, str]:
    return dict(zip(labels[::2], labels[1::2], strict=True))


def _data(metrics: Sequence[Metric], resource: Resource) -> MetricsData:
    nonempty = [metric for metric in metrics if metric.data.data_points]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, nonempty, "")], "")])


def _nanoseconds() -> int:
    return int(now() * 1e9)
