"""Turns traces on where OpenTelemetry's environment variables say so."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from contextlib import AsyncExitStack

import structlog

from sharebroker_protocol.tracing import enabled
from sharebroker_protocol.tracing.settings import TracingSettings
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.cluster.router import ROLES
from sharebroker_server.telemetry.process import release

_log = structlog.get_logger()


def begin(settings: ServeSettings, address: str, stack: AsyncExitStack) -> None:
    """Trace from here on, if that was asked for; `stack` ends it, after all that may be traced."""
    if settings.telemetry.traces is None or settings.telemetry.sampling.never:
        return
    from sharebroker_protocol.tracing import setup  # brings OpenTelemetry in

    exporting = setup.begin(settings.telemetry, attributes(settings.roles, address), undelivered)
    enabled.turn(exporting.tracer)

    async def end() -> None:
        enabled.turn(None)
        await asyncio.to_thread(exporting.stop)

    stack.push_async_callback(end)


def attributes(roles: Set[str], address: str) -> dict[str, str]:
    """Who tells; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may say otherwise."""
    named = "" if roles == frozenset(ROLES) else "-" + "-".join(sorted(roles))
    return {
        "service.name": f"sharebroker{named}",
        "service.version": release(),
        "service.instance.id": address,
    }


def undelivered(logger: str, reason: str) -> None:
    """Say that a collector takes nothing."""
    _log.warning("telemetry does not arrive; what waits too long is dropped", by=logger, reason=reason)


def tell_unknown(settings: TracingSettings) -> None:
    """Say which of OpenTelemetry's variables are none; others' tools may read them, so they are no errors."""
    if settings.unknown:
        _log.warning("variables that OpenTelemetry does not have count for nothing", names=settings.unknown)
