"""Metrics: plain numbers that the code increments, and families that are created when metrics are read.

A counter is an int attribute; only a scrape converts it to a `Family`. Counting therefore costs 0.03 to 0.1
microseconds. `AppendMetricsByLog` counts the appends to all logs; `Exposition` renders all metrics as text.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from time import perf_counter
from typing import Final, NamedTuple

import structlog

MICROSECOND: Final = 1e-6
_LONGEST: Final = 63


class MetricKind(StrEnum):
    """Metric types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    """One value; `labels` alternates names and values."""

    labels: tuple[str, ...]
    value: float
    suffix: str = ""


YIELD: Final = Sample((), 0.0)
"""A marker among samples without a value: the reader may yield to the event loop before the next sample."""


class Family(NamedTuple):
    """All samples of one metric name. A counter's name ends in `_total`."""

    name: str
    kind: MetricKind
    help: str
    samples: Iterable[Sample]


class Histogram:
    """Histogram of integers with buckets of powers of two: bucket k counts values below 2**k.

    Values are microseconds or counts.
    """

    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (_LONGEST + 1)
        self.sum = 0

    def add(self, number: int) -> None:
        """Counts a value of 0 or more."""
        self.buckets[number.bit_length()] += 1
        self.sum += number

    def add_seconds(self, seconds: float) -> None:
        """Counts a duration, in microseconds."""
        self.add(max(int(seconds * 1e6), 0))

    def samples(self, labels: tuple[str, ...], low: int, high: int, unit: float = 1) -> Iterator[Sample]:
        """Returns cumulative buckets from 2**low to 2**high, sum and count; `unit` scales the values."""
        below = sum(self.buckets[:low])
        for power in range(low, high + 1):
            below += self.buckets[power]
            yield Sample((*labels, "le", number((1 << power) * unit)), below, "_bucket")
        total = below + sum(self.buckets[high + 1 :])
        yield Sample((*labels, "le", "+Inf"), total, "_bucket")
        yield Sample(labels, self.sum * unit, "_sum")
        yield Sample(labels, total, "_count")


def seconds_of(
    name: str, help_: str, label: str, histograms: Mapping[str, Histogram], low: int = 6, high: int = 25
) -> Family:
    """Returns a histogram of durations by one label.

    The default buckets range from 64 microseconds to 34 seconds.
    """
    return Family(
        name,
        MetricKind.HISTOGRAM,
        help_,
        (
            sample
            for value, histogram in sorted(histograms.items())
            for sample in histogram.samples((label, value) if label else (), low, high, MICROSECOND)
        ),
    )


def counter(name: str, help_: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """Returns a counter family."""
    return Family(name, MetricKind.COUNTER, help_, (Sample(labels, value) for labels, value in samples))


OTHER: Final = "other"
"""Label value that further values share beyond the cardinality limit."""


def gauge(name: str, help_: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """Returns a gauge family."""
    return Family(name, MetricKind.GAUGE, help_, (Sample(labels, value) for labels, value in samples))


def number(value: float) -> str:
    """Formats a value for Prometheus."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else f"{value:.12g}"


Collector = Callable[[], Iterable[Family]]
"""Returns the metric families of one part of the process."""

Refresh = Callable[[], Awaitable[None]]
"""Requests metrics from other brokers before a scrape; should be fast."""


class Metrics:
    """The collectors of all parts of a process."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self.refreshes: list[Refresh] = []

    def add(self, collector: Collector) -> None:
        """Adds a collector; families keep the order of addition."""
        self._collectors.append(collector)

    def families(self) -> Iterator[Family]:
        """Returns all families; reads them during iteration."""
        for collector in self._collectors:
            yield from collector()


def lines(family: Family) -> Iterator[str]:
    """Formats a family in Prometheus's text format, line by line."""
    name = family.name
    yield f"# HELP {name} {_escaped(family.help)}\n# TYPE {name} {family.kind}\n"
    for sample in family.samples:
        labels, value, suffix = sample
        yield "" if sample is YIELD else f"{name}{suffix}{_labels(labels)} {number(value)}\n"


def _labels(labels: Sequence[str]) -> str:
    if not labels:
        return ""
    pairs = zip(labels[::2], labels[1::2], strict=True)
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', r"\"")


_log = structlog.get_logger()

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CACHE_SECONDS: Final = 1.0
"""Seconds for which later scrapes get the same rendering."""

REFRESH_TIMEOUT: Final = 2.0
"""Seconds that a scrape waits for metrics from other brokers; after that it serves the former values."""

_SLICE: Final = 0.002
"""Seconds of rendering before it yields to the event loop."""


class AppendMetrics:
    """Appends to one kind of log."""

    __slots__ = ("bytes", "failures", "records", "seconds")

    def __init__(self) -> None:
        self.records = Histogram()
        self.seconds = Histogram()
        self.bytes = 0
        self.failures: Counter[str] = Counter()

    @contextmanager
    def timed(self, records: int, size: int) -> Iterator[None]:
        """Measures one append."""
        started = perf_counter()
        try:
            yield
        except Exception as failure:
            self.failures[type(failure).__name__] += 1
            raise
        self.seconds.add_seconds(perf_counter() - started)
        self.records.add(records)
        self.bytes += size


class AppendMetricsByLog:
    """Appends to all kinds of logs; a kind is listed from its first append on."""

    def __init__(self) -> None:
        self._kinds: defaultdict[str, AppendMetrics] = defaultdict(AppendMetrics)

    def of(self, kind: str) -> AppendMetrics:
        """Returns the metrics of one kind."""
        return self._kinds[kind]

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        kinds = sorted(self._kinds.items())
        yield seconds_of(
            "sharebroker_log_append_seconds",
            "Time until Redis acknowledged an append; with appendfsync always, until it was on disk.",
            "log",
            {kind: appended.seconds for kind, appended in kinds},
        )
        yield Family(
            "sharebroker_log_append_records",
            MetricKind.HISTOGRAM,
            "Records (for `partition`: record batches) per append, which is one group commit.",
            (
                sample
                for kind, appended in kinds
                for sample in appended.records.samples(("log", kind), low=1, high=12)
            ),
        )
        yield counter(
            "sharebroker_log_append_bytes_total",
            "Bytes appended.",
            ((("log", kind), appended.bytes) for kind, appended in kinds),
        )
        yield counter(
            "sharebroker_log_append_failures_total",
            "Appends that failed or have an unknown outcome.",
            (
                (("log", kind, "error", error), count)
                for kind, appended in kinds
                for error, count in sorted(appended.failures.items())
            ),
        )


class Exposition:
    """The text of all metrics. One rendering runs at a time, and concurrent scrapes share it."""

    def __init__(self, metrics: Metrics) -> None:
        self.renderings = 0
        self._metrics = metrics
        self._text = b""
        self._until = 0.0
        self._rendering: asyncio.Task[bytes] | None = None
        self._refreshes: set[asyncio.Future[None]] = set()
        metrics.add(self._families)

    async def text(self) -> bytes:
        """Returns the cached rendering, the one in progress, or a new one."""
        if self._rendering is None:
            if asyncio.get_running_loop().time() < self._until:
                return self._text
            self._rendering = asyncio.create_task(self._render())
        # The end of one scrape must not cancel the rendering of the others.
        return await asyncio.shield(self._rendering)

    async def close(self) -> None:
        """Cancels the rendering and the refreshes."""
        tasks = [task for task in (self._rendering, *self._refreshes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _families(self) -> Iterable[Family]:
        yield counter(
            "sharebroker_metrics_renderings_total",
            "Renderings of the metrics; scrapes within one second share one.",
            [((), self.renderings)],
        )

    async def _render(self) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            await self.refresh()
            self.renderings += 1
            parts: list[str] = []
            turn_ends = loop.time() + _SLICE
            for family in self._metrics.families():
                for line in lines(family):
                    parts.append(line)
                    if loop.time() > turn_ends:
                        await asyncio.sleep(0)
                        turn_ends = loop.time() + _SLICE
            self._text = "".join(parts).encode()
            self._until = loop.time() + CACHE_SECONDS
            return self._text
        finally:
            self._rendering = None

    async def refresh(self) -> None:
        """Runs the refreshes of metrics from other brokers, for at most REFRESH_TIMEOUT."""
        if not self._refreshes:
            for refresh in self._metrics.refreshes:
                task = asyncio.ensure_future(refresh())
                self._refreshes.add(task)
                task.add_done_callback(self._refreshed)
        if self._refreshes:
            await asyncio.wait(self._refreshes, timeout=REFRESH_TIMEOUT)

    def _refreshed(self, task: asyncio.Future[None]) -> None:
        self._refreshes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("metrics refresh failed", error=repr(error))
