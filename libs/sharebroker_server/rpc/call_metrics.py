"""Rate, errors and duration of gRPC calls, by method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.rpc_status import status_code
from sharebroker_server.telemetry.metrics import Family, Histogram, counter, gauge, seconds_of

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"


class MethodCounts:
    """Calls of one method. Durations are of unary calls only; streams last as long as clients stay."""

    __slots__ = ("codes", "errors", "in_flight", "method", "path", "seconds")

    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        self.in_flight = 0
        self.codes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.seconds = Histogram()

    def ended(self, outcome: str) -> None:
        """Counts the end of a call; `outcome` is "" if `failed` counted it."""
        self.in_flight -= 1
        if outcome:
            self.codes[outcome] += 1

    def failed(self, failure: Exception) -> None:
        """Counts a status other than OK."""
        if isinstance(failure, KafkaError):
            self.codes[status_code(failure).name] += 1
            self.errors[failure.code.name] += 1
        else:
            self.codes["INTERNAL"] += 1


class CallCounts:
    """Calls of all methods of a server; a method is listed from its first call on."""

    def __init__(self) -> None:
        self._methods: dict[str, MethodCounts] = {}

    def of(self, method: str) -> MethodCounts:
        """Returns the counts of a method, given as /package.Service/Method."""
        short = method.rpartition(".")[2]
        found = self._methods.get(short)
        if found is None:
            found = self._methods[short] = MethodCounts(short, method)
        return found

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        methods = [self._methods[name] for name in sorted(self._methods)]
        yield counter(
            "sharebroker_rpc_calls_total",
            "Finished gRPC calls and streams, by status, without calls within one process.",
            (
                (("method", each.method, "code", code), count)
                for each in methods
                for code, count in sorted(each.codes.items())
            ),
        )
        yield counter(
            "sharebroker_rpc_errors_total",
            "Rejected gRPC calls, by Kafka error.",
            (
                (("method", each.method, "error", error), count)
                for each in methods
                for error, count in sorted(each.errors.items())
            ),
        )
        yield gauge(
            "sharebroker_rpc_in_flight",
            "gRPC calls and streams in flight.",
            ((("method", each.method), each.in_flight) for each in methods),
        )
        yield seconds_of(
            "sharebroker_rpc_seconds",
            "Duration of unary gRPC calls, including the waits that clients request.",
            "method",
            {each.method: each.seconds for each in methods if each.seconds.sum},
        )
