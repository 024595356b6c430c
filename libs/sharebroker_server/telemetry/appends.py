"""Metrics of appends by kind of log: sizes, and times until they were durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from sharebroker_server.telemetry.metrics import Family, Histogram, Kind, counter, seconds_of


class Appended:
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


class Appends:
    """Appends to all kinds of logs; a kind is listed from its first append on."""

    def __init__(self) -> None:
        self._kinds: dict[str, Appended] = {}

    def of(self, kind: str) -> Appended:
        """Returns the metrics of one kind."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Appended()
        return found

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
            Kind.HISTOGRAM,
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
