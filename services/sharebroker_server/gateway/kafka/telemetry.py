"""Metrics of the Kafka listener, and its log of clients."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from sharebroker_server.kafka_wire.schema import api_schema
from sharebroker_server.telemetry.metrics import Family, Histogram, counter, seconds_of
from sharebroker_server.telemetry.rate_limited_log import RateLimitedLog


def log_of_clients() -> RateLimitedLog:
    """Returns a log for lines about Kafka clients."""
    return RateLimitedLog("kafka client log lines dropped")


class RequestMetrics:
    """Counts by API key. `cached` are requests of idle clients that a response cache answered."""

    __slots__ = ("cached", "failures", "requests", "seconds")

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.cached: Counter[int] = Counter()
        self.failures: Counter[int] = Counter()
        self.seconds: defaultdict[int, Histogram] = defaultdict(Histogram)

    def families(self) -> Iterable[Family]:
        """Yields the metrics (see Collector)."""
        yield counter(
            "sharebroker_kafka_requests_total",
            "Requests of Kafka clients. `cached`: the response came from the response cache.",
            (
                (("api", api_schema(key).name, "cached", cached), count)
                for cached, counts in (("false", self.requests), ("true", self.cached))
                for key, count in sorted(counts.items())
            ),
        )
        yield counter(
            "sharebroker_kafka_request_failures_total",
            "Requests of Kafka clients that failed as a whole.",
            ((("api", api_schema(key).name), count) for key, count in sorted(self.failures.items())),
        )
        yield seconds_of(
            "sharebroker_kafka_request_seconds",
            "Time to serve requests of Kafka clients, including the waits that clients request.",
            "api",
            {api_schema(key).name: histogram for key, histogram in self.seconds.items()},
        )
