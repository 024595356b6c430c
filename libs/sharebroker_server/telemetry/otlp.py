"""Tells a collector by OTLP what /metrics serves: the same numbers under the same names.

Counters are called without the `_total` that Prometheus wants at their end. Imports OpenTelemetry's SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import structlog
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sharebroker_protocol.clock import now
from sharebroker_protocol.tracing import otlp_http, setup
from sharebroker_protocol.tracing.settings import TracingSettings
from sharebroker_server.aio.threads import run_in_daemon_thread
from sharebroker_server.telemetry.exposition import Exposition
from sharebroker_server.telemetry.metrics import TURN, Family, Kind, Metrics, Sample

_log = structlog.get_logger()

_SCOPE: Final = InstrumentationScope("sharebroker")
_SLICE: Final = 0.002
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """Sends all metrics every so often, one sending at a time; what cannot be sent is not kept."""

    def __init__(
        self,
        metrics: Metrics,
        exposition: Exposition,
        settings: TracingSettings,
        attributes: Mapping[str, str],
        warn: setup.Warn,
    ) -> None:
        setup.heed(warn)
        self._metrics = metrics
        self._exposition = exposition
        self._every = settings.metrics_every
        self._resource = setup.resource(attributes)
        self._exporter = _exporter(str(settings.metrics), settings.metrics_over_http)
        self._begun = _nanoseconds()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From here on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Not any more; what is under way is given up."""
        if self._task is not None:
            self._task.cancel()
            self._exporter.shutdown()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self._exposition.refresh()
                data = _data(await self._read(), self._resource)
                await run_in_daemon_thread(partial(self._exporter.export, data), "metrics")
            except Exception:  # the next time may fare better
                _log.exception("metrics could not be told by OTLP")

    async def _read(self) -> list[Metric]:
        """All families, with turns for others in between: there may be thousands of series."""
        loop = asyncio.get_running_loop()
        turn_ends, at = loop.time() + _SLICE, _nanoseconds()
        read = []
        for family in self._metrics.families():
            samples = []
            for sample in family.samples:
                if sample is not TURN:
                    samples.append(sample)
                if loop.time() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = loop.time() + _SLICE
            read.append(metric(family._replace(samples=samples), self._begun, at))
        return read


def _exporter(endpoint: str, http: bool) -> otlp_http.Metrics | OTLPMetricExporter:
    return otlp_http.Metrics(endpoint) if http else OTLPMetricExporter(endpoint=endpoint)


def metric(family: Family, begun: int, at: int) -> Metric:
    """A family as OTLP has it; times in nanoseconds since the Unix epoch."""
    unit = "s" if family.name.endswith("_seconds") else ""
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    return Metric(name, family.help, unit, _points(family, begun, at))


def _points(family: Family, begun: int, at: int) -> Sum | Gauge | Histogram:
    if family.kind is Kind.HISTOGRAM:
        return Histogram(list(_histograms(family.samples, begun, at)), _CUMULATIVE)
    points = [
        NumberDataPoint(_attributes(sample.labels), begun, at, float(sample.value))
        for sample in family.samples
    ]
    return Gauge(points) if family.kind is Kind.GAUGE else Sum(points, _CUMULATIVE, is_monotonic=True)


def _histograms(samples: Iterable[Sample], begun: int, at: int) -> Iterator[HistogramDataPoint]:
    """Buckets, sum and count of each come one after the other; here buckets are counted by themselves."""
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
            counts = [here - before for here, before in zip(below, [0, *below], strict=False)]
            unknown = cast("Any", None)  # the least and the greatest are optional in OTLP
            yield HistogramDataPoint(
                _attributes(labels), begun, at, int(value), total, counts, bounds, unknown, unknown
            )
            bounds, below = [], []


def _attributes(labels: Sequence[str]) -> dict[str, str]:
    return dict(zip(labels[::2], labels[1::2], strict=True))


def _data(metrics: Sequence[Metric], resource: Resource) -> MetricsData:
    told = [one for one in metrics if one.data.data_points]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, told, "")], "")])


def _nanoseconds() -> int:
    return int(now() * 1e9)
