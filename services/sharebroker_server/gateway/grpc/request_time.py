"""Charges the time of unary calls to the quota request_percentage of their clients.

A call waits until the earlier use of its client is paid. The messages of streams are not charged: tasks that
several clients share serve them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from google.protobuf.descriptor_pool import Default

from sharebroker_server.aio import timed
from sharebroker_server.catalog.quotas import QuotaKey
from sharebroker_server.gateway.authorization import Access
from sharebroker_server.gateway.context import Gateway, deadline_of

Unary = Callable[[Any, Any], Coroutine[Any, Any, Any]]
"""A bound method of a servicer."""

_PERCENT: Final = 100.0


def charge_unary_calls(gateway: Gateway, service: str, servicer: object) -> None:
    """Replaces the unary methods of a servicer by methods that are charged."""
    for method in Default().FindServiceByName(service).methods:
        if not (method.client_streaming or method.server_streaming):
            setattr(servicer, method.name, _charged(gateway, getattr(servicer, method.name)))


def _charged(gateway: Gateway, serve: Unary) -> Unary:
    async def charged(request: Any, context: Any) -> Any:
        quotas = gateway.quotas
        if not quotas.active:
            return await serve(request, context)
        client, key = Access(gateway, context).client, QuotaKey.REQUEST_PERCENTAGE
        await quotas.admit(key, client, 0, deadline_of(context), held=request.ByteSize())
        spent: list[float] = []
        try:
            return await timed(serve(request, context), spent)
        finally:
            quotas.charge(key, client, sum(spent) * _PERCENT)

    return charged
