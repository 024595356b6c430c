"""What is appended to the logs, by kind of log: how much at a time, and how long until it was durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from sharebroker_server.telemetry.metrics import Family, Histogram, Kind, counter, seconds_of


class Appended:
    """Of one kind of log."""

    __slots__ = ("bytes", "failures", "records", "seconds")

    def __init__(self) -> None:
        self.records = Histogram()
        self.seconds = Histogram()
        self.bytes = 0
        self.failures: Counter[str] = Counter()

    @contextmanager
    def timed(self, records: int, size: int) -> Iterator[None]:
        """Around one append."""
        begun = perf_counter()
        try:
            yield
        except Exception as failure:
            self.failures[type(failure).__name__] += 1
            raise
        self.seconds.add_seconds(perf_counter() - begun)
        self.records.add(records)
        self.bytes += size


class Appends:
    """Of all kinds; a kind is there from its first append on."""

    def __init__(self) -> None:
        self._kinds: dict[str, Appended] = {}

    def of(self, kind: str) -> Appended:
        """One kind's numbers."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Appended()
        return found

    def families(self) -> Iterable[Family]:
        """See Collector."""
        kinds = sorted(self._kinds.items())
        yield seconds_of(
            "sharebroker_log_append_seconds",
            "Time until Redis answered an append: with appendfsync always, until it was on disk.",
            "log",
            {kind: appended.seconds for kind, appended in kinds},
        )
        yield Family(
            "sharebroker_log_append_records",
            Kind.HISTOGRAM,
            "Records (of `partition`: batches) that one append carried: the group of a group commit.",
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
            "Appends that failed, or may have.",
            (
                (("log", kind, "error", error), count)
                for kind, appended in kinds
                for error, count in sorted(appended.failures.items())
            ),
        )
