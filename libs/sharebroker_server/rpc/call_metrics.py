"""Rate, errors and duration of the calls that a server answers, by method."""

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
    """Calls of one method. Durations are of unary calls: of a stream it would say how long clients stay."""

    __slots__ = ("codes", "errors", "method", "path", "seconds", "under_way")

    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        self.under_way = 0
        self.codes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.seconds = Histogram()

    def ended(self, outcome: str) -> None:
        """A call ended; how, unless `failed` was told."""
        self.under_way -= 1
        if outcome:
            self.codes[outcome] += 1

    def failed(self, failure: Exception) -> None:
        """A call ended with a status that is not OK."""
        if isinstance(failure, KafkaError):
            self.codes[status_code(failure).name] += 1
            self.errors[failure.code.name] += 1
        else:
            self.codes["INTERNAL"] += 1


class CallCounts:
    """Of all methods of a server; a method is there from its first call on."""

    def __init__(self) -> None:
        self._methods: dict[str, MethodCounts] = {}

    def of(self, method: str) -> MethodCounts:
        """One method's numbers; `method` as gRPC names it, /package.Service/Method."""
        short = method.rpartition(".")[2]
        found = self._methods.get(short)
        if found is None:
            found = self._methods[short] = MethodCounts(short, method)
        return found

    def families(self) -> Iterable[Family]:
        """See Collector."""
        methods = [self._methods[name] for name in sorted(self._methods)]
        yield counter(
            "sharebroker_rpc_calls_total",
            "gRPC calls and streams that ended, by status. Calls within one process are not among them.",
            (
                (("method", each.method, "code", code), count)
                for each in methods
                for code, count in sorted(each.codes.items())
            ),
        )
        yield counter(
            "sharebroker_rpc_errors_total",
            "gRPC calls that were refused, by Kafka's error.",
            (
                (("method", each.method, "error", error), count)
                for each in methods
                for error, count in sorted(each.errors.items())
            ),
        )
        yield gauge(
            "sharebroker_rpc_under_way",
            "gRPC calls and streams under way.",
            ((("method", each.method), each.under_way) for each in methods),
        )
        yield seconds_of(
            "sharebroker_rpc_seconds",
            "Time that unary gRPC calls took here, the waits that clients ask for included.",
            "method",
            {each.method: each.seconds for each in methods if each.seconds.sum},
        )
