"""Log lines and metrics of the Kafka listener. A misbehaving client must not flood the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final

import structlog

from sharebroker_server.kafka_wire.schema import api_schema
from sharebroker_server.telemetry.metrics import Family, Histogram, counter, seconds_of

_log = structlog.get_logger()

BURST: Final = 20
PER_SECOND: Final = 1.0


class RateLimitedLog:
    """Logs `BURST` lines in a row, then `PER_SECOND`; it counts further lines and logs their number later."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._available = float(BURST)
        self._refilled_at = now()
        self._dropped = 0

    def log(self, event: str, *, failed: BaseException | None = None, **fields: Any) -> None:
        """Logs one line: an error with the exception `failed`, else a warning."""
        if not self._acquire():
            self._dropped += 1
        elif failed is not None:
            _log.error(event, exc_info=failed, **fields)
        else:
            _log.warning(event, **fields)

    def log_dropped(self) -> None:
        """Logs the number of dropped lines; to be called regularly."""
        if self._dropped and self._acquire():
            _log.warning("kafka client log lines dropped", lines=self._dropped)
            self._dropped = 0

    def _acquire(self) -> bool:
        now = self._now()
        self._available = min(self._available + (now - self._refilled_at) * PER_SECOND, BURST)
        self._refilled_at = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


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
