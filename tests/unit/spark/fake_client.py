"""A client whose responses a test determines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sharebroker_spark.client import Client


class _Methods:
    """A stub: its methods are their names."""

    def __getattr__(self, name: str) -> str:
        return name


class FakeClient:
    """Responds by method name, and records the requests."""

    def __init__(self, **responses: Callable[[Any], Any]) -> None:
        self.admin = self.plans = self.produce = _Methods()
        self.responses = responses
        self.requests: list[Any] = []

    def call(self, method: str, request: Any, seconds: float = 0.0) -> Any:
        self.requests.append(request)
        return self.responses[method](request)

    @property
    def client(self) -> Client:
        return cast("Client", self)
