"""Makes the methods of servicers from functions of the gateway, and authorizes their callers.

A call is denied as a whole, by a `Check`, or item by item (`Items`): the response then has the results of the
items that the caller may use, and the error of each other one in its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from google.protobuf.message import Message

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.authorization import Access
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.security.user_access import audited

PORTION: Final = 500
"""Items that are authorized in one turn of the event loop."""

Q = TypeVar("Q")
R = TypeVar("R")
Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Function = Callable[[Gateway, Q, Deadline], Awaitable[R]]
"""Serves a request; raises KafkaError."""

Authorized = Callable[[Function[Q, R], Access, Q, Deadline], Awaitable[R]]
"""Serves what the caller may do by calling the function; raises KafkaError if it may do nothing."""

Check = Callable[[Access, Any], None]
"""Raises an AUTHORIZATION_FAILED error if the caller may not send the request."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """The charge of a request that creates or deletes partitions. As in Kafka, items that fail are free.

    All items are charged at first, so that requests in progress count. A call of unknown outcome stays
    charged. `partitions` returns the number of each item of a request; `results` is the field of the response
    with their results.
    """

    partitions: Callable[[Gateway, Any], list[int]]
    results: str

    def charge(self, access: Access, request: Any) -> Sequence[int]:
        """Charges all items; returns the partitions of each. Raises THROTTLING_QUOTA_EXCEEDED."""
        partitions = self.partitions(access.gateway, request)
        if any(partitions):
            access.mutate(sum(partitions))
        return partitions

    def refund(self, access: Access, partitions: Sequence[int], response: Any) -> None:
        """Returns the charge of the items that failed."""
        results = getattr(response, self.results)
        made = sum(count for count, result in zip(partitions, results, strict=True) if not result.error_code)
        access.refund_mutation(sum(partitions), made)


class Servicer:
    """The base of servicers whose methods `rpc` makes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway


class Rpc(Protocol[Q_contra, R_co]):
    """A bound method that serves a unary call."""

    def __call__(self, request: Q_contra, context: Any) -> Coroutine[Any, Any, R_co]:
        """Returns the response."""
        ...


def rpc(
    function: Function[Q, R],
    authorized: Authorized[Q, R],
    *,
    produces: bool = False,
    mutation: Mutation | None = None,
) -> Rpc[Q, R]:
    """Returns a method that calls `function` with the gateway, the request and the deadline of the call.

    With access control `authorized` calls it. If it `produces`, the request is charged to the caller's quota;
    so are the partitions that it creates or deletes (`mutation`).
    """

    async def serve(self: Servicer, request: Q, context: Any) -> R:
        gateway, deadline = self._gateway, deadline_of(context)
        audited(context)
        charged = gateway.quotas.active
        if gateway.unrestricted and not charged:
            return await function(gateway, request, deadline)
        access = Access(gateway, context)
        if produces and charged:
            await access.admit_produced(cast("Message", request), deadline)
        partitions: Sequence[int] = ()
        if mutation is not None and charged:
            partitions = mutation.charge(access, request)
        if gateway.unrestricted:
            response = await function(gateway, request, deadline)
        else:
            response = await authorized(function, access, request, deadline)
        if mutation is not None and partitions:
            mutation.refund(access, partitions, response)
        return response

    return cast("Rpc[Q, R]", serve)  # as the class binds it


def checked(check: Check) -> Authorized[Any, Any]:
    """Returns what serves a request that passes the check."""

    async def serve(function: Function[Any, Any], access: Access, request: Any, deadline: Deadline) -> Any:
        check(access, request)
        return await function(access.gateway, request, deadline)

    return serve


@dataclass(frozen=True, slots=True)
class Items:
    """Serves the items of a request that its caller may use.

    `requested` and `answered` are repeated fields of the request and of the `response`. `denial` returns why
    an item of a request is denied, or None; `refused` makes the result of a denied item. `check` is for the
    whole request.
    """

    requested: str
    answered: str
    response: type[Any]
    denial: Callable[[Access, Any], KafkaError | None]
    refused: Callable[[Any, KafkaError], Any]
    check: Check | None = None

    async def __call__(
        self, function: Function[Any, Any], access: Access, request: Any, deadline: Deadline
    ) -> Any:
        """Returns the response. Raises KafkaError."""
        if self.check is not None:
            self.check(access, request)
        items = getattr(request, self.requested)
        turns = access.gateway.turns
        if len(items) <= PORTION:
            denials = [self.denial(access, item) for item in items]
        else:
            denials = await turns.collect((self.denial(access, item) for item in items), PORTION)
        if not any(denials):
            return await function(access.gateway, request, deadline)
        allowed = [item for item, error in zip(items, denials, strict=True) if error is None]
        response = self.response()
        if allowed:  # an empty list would select all
            remaining = type(request)()
            remaining.CopyFrom(request)
            remaining.ClearField(self.requested)
            getattr(remaining, self.requested).extend(allowed)
            response = await function(access.gateway, remaining, deadline)
        results = (
            None if error is None else self.refused(item, error)
            for item, error in zip(items, denials, strict=True)
        )
        refused = await turns.collect(results, PORTION)
        merged = _merged(refused, list(getattr(response, self.answered)))
        response.ClearField(self.answered)
        getattr(response, self.answered).extend(merged)
        return response


def _merged(refused: Sequence[Any], served: list[Any]) -> list[Any]:
    """Returns the results in the order of the request, if each allowed item has one; else denied last.

    `refused` has the result of each denied item, and None for the others.
    """
    if len(served) != refused.count(None):
        return served + [result for result in refused if result is not None]
    results = iter(served)
    return [next(results) if result is None else result for result in refused]
