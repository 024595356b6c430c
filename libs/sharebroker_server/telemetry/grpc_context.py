"""Trace context of calls: W3C's headers in gRPC metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from opentelemetry.trace import SpanKind

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing.context import PARENT, STATE, TraceContext, parse
from sharebroker_protocol.tracing.tracer import Tracer

Metadata = tuple[tuple[str, str], ...]


def outgoing(tracer: Tracer) -> Metadata | None:
    """Returns the metadata of the current span; None if the span is not recorded."""
    current = tracer.current()
    return None if current is None else tuple(current.headers)


def incoming(metadata: Iterable[tuple[str, Any]] | None) -> TraceContext | None:
    """Returns the trace context of the caller, if any."""
    parent = state = ""
    for name, value in metadata or ():
        if name == PARENT:
            parent = value
        elif name == STATE:
            state = value
    return parse(parent, state) if parent else None


async def serve(
    tracer: Tracer, method: str, behaviour: Callable[..., Awaitable[Any]], request: Any, context: Any
) -> Any:
    """Serves a call in a new span if the caller's span is recorded."""
    parent = incoming(context.invocation_metadata())
    service, _, short = method.removeprefix("/").partition("/")
    attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": short}
    span = None
    if parent is not None and tracer.joins(parent):
        span = tracer.start(f"{service}/{short}", parent, SpanKind.SERVER, attributes)
    if span is None:
        return await behaviour(request, context)
    error: KafkaError | None = None
    try:
        with tracer.within(span):
            return await behaviour(request, context)
    except KafkaError as failure:
        error = failure
        raise
    finally:
        tracer.end(span, error)
