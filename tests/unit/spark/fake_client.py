"""A client whose responses a test determines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sharebroker_spark.client import CallResult, GatewayClient


class _Methods:
    """A stub whose methods are represented by their names."""

    def __getattr__(self, name: str) -> str:
        return name


class FakeClient:
    """Responds by method name, and records the requests. `first_attempt`: whether calls succeed at once."""

    def __init__(self, **responses: Callable[[Any], Any]) -> None:
        self.admin = self.plans = self.produce = _Methods()
        self.responses = responses
        self.requests: list[Any] = []
        self.address = "127.0.0.1:9"
        self.closed = False
        self.first_attempt = True

    def call(self, method: str, request: Any, seconds: float = 0.0) -> Any:
        self.requests.append(request)
        return self.responses[method](request)

    def call_with_retry(self, method: str, request: Any, seconds: float = 0.0) -> CallResult:
        return CallResult(self.call(method, request), self.first_attempt)

    def is_retry_over(self, started: float) -> bool:
        return False

    def pause(self, seconds: float) -> None:
        pass

    @property
    def client(self) -> GatewayClient:
        return cast("GatewayClient", self)
