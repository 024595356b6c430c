"""Methods of a servicer made from functions of the gateway."""

from __future__ import annotations

from typing import Any

from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.rpc import GatewayServicer, rpc
from tests.unit.gateway.conftest import Harness


class Context:
    """A call that its client ends after `seconds`; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        return self._seconds


async def test_the_function_gets_the_gateway_the_request_and_the_deadline(harness: Harness) -> None:
    calls: list[tuple[Gateway, str, float]] = []

    async def shout(gateway: Gateway, request: str, deadline: Deadline) -> str:
        calls.append((gateway, request, deadline.remaining()))
        return request.upper()

    class Servicer(GatewayServicer):
        Shout: Any = rpc(shout)

    servicer = Servicer(harness.gateway)
    assert await servicer.Shout("a", Context(5.0)) == "A"
    assert await servicer.Shout("b", Context(None)) == "B"
    assert [(gateway, request) for gateway, request, _ in calls] == [
        (harness.gateway, "a"),
        (harness.gateway, "b"),
    ]
    assert 4.0 < calls[0][2] < 5.0, "the function ends slightly before its caller gives up"
    assert 5.0 < calls[1][2] <= REQUEST_TIMEOUT
