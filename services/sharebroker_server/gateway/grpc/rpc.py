"""Makes the methods of a servicer from the functions of the gateway that serve them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway

Q = TypeVar("Q")
R = TypeVar("R")
Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class GatewayServicer:
    """The base of servicers with methods made by `rpc`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway


class Rpc(Protocol[Q_contra, R_co]):
    """A bound method that serves a unary call."""

    def __call__(self, request: Q_contra, context: Any) -> Coroutine[Any, Any, R_co]:
        """Returns the response."""
        ...


def rpc(function: Callable[[Gateway, Q, Deadline], Awaitable[R]]) -> Rpc[Q, R]:
    """Returns a method that calls `function` with the gateway, the request and the deadline of the call."""

    async def serve(self: GatewayServicer, request: Q, context: Any) -> R:
        return await function(self._gateway, request, Deadline.of(context))

    return cast("Rpc[Q, R]", serve)  # as the class binds it
