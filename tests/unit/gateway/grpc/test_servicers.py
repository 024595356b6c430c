"""Methods made from functions of the gateway, and requests whose items are partly denied."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.clock import Deadline
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.grpc.servicers import Servicer, checked, rpc
from sharebroker_server.security import audit
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.grpc.calls import Context


async def test_the_function_gets_the_gateway_the_request_and_the_deadline(harness: Harness) -> None:
    calls: list[tuple[Gateway, str, float]] = []

    async def shout(gateway: Gateway, request: str, deadline: Deadline) -> str:
        calls.append((gateway, request, deadline.remaining()))
        return request.upper()

    class Shouting(Servicer):
        Shout: Any = rpc(shout, checked(lambda *_: None))

    servicer = Shouting(harness.gateway)
    assert await servicer.Shout("a", Context(5.0)) == "A"
    assert await servicer.Shout("b", Context(None)) == "B"
    assert [(gateway, request) for gateway, request, _ in calls] == [
        (harness.gateway, "a"),
        (harness.gateway, "b"),
    ]
    assert 4.0 < calls[0][2] < 5.0, "the function ends slightly before its caller's deadline"
    assert 5.0 < calls[1][2] <= REQUEST_TIMEOUT


async def test_a_change_names_the_caller_of_the_call(harness: Harness) -> None:
    async def delete(_: Gateway, name: str, __: Deadline) -> str:
        audit.change("DeleteTopics", "TOPIC", name)
        return name

    class Deleting(Servicer):
        Delete: Any = rpc(delete, checked(lambda *_: None))

    with capture_logs() as lines:
        await Deleting(harness.gateway).Delete("a", Context(None))
    (line,) = lines
    assert (line["principal"], line["listener"]) == ("User:ANONYMOUS", "grpc")


@pytest.mark.parametrize(
    ("remaining", "low", "high"), [(None, 29.0, 30.0), (10.0, 9.8, 9.9), (0.1, 0.0, 0.09)]
)
def test_deadline_is_earlier_than_that_of_the_caller(
    remaining: float | None, low: float, high: float
) -> None:
    assert low <= deadline_of(Context(remaining)).remaining() <= high
