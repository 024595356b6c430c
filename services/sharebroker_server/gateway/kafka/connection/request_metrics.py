"""Rate, errors and duration of the requests of Kafka clients, by API."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from sharebroker_server.kafka_wire.schema import api_schema
from sharebroker_server.telemetry.metrics import Family, Histogram, counter, seconds_of


class RequestCounts:
    """By API key. `quiet` are requests like the one before, of an idle client, that were not served anew."""

    __slots__ = ("failures", "quiet", "requests", "seconds")

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.quiet: Counter[int] = Counter()
        self.failures: Counter[int] = Counter()
        self.seconds: defaultdict[int, Histogram] = defaultdict(Histogram)

    def families(self) -> Iterable[Family]:
        """See Collector."""
        yield counter(
            "sharebroker_kafka_requests_total",
            "Requests of Kafka clients. `quiet`: from idle clients, answered without being served.",
            (
                (("api", api_schema(key).name, "quiet", quiet), count)
                for quiet, counts in (("false", self.requests), ("true", self.quiet))
                for key, count in sorted(counts.items())
            ),
        )
        yield counter(
            "sharebroker_kafka_request_failures_total",
            "Requests of Kafka clients that were refused as a whole.",
            ((("api", api_schema(key).name), count) for key, count in sorted(self.failures.items())),
        )
        yield seconds_of(
            "sharebroker_kafka_request_seconds",
            "Time that requests of Kafka clients took here, the waits that clients ask for included.",
            "api",
            {api_schema(key).name: histogram for key, histogram in self.seconds.items()},
        )
