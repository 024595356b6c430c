"""Calls to a servicer in another process: the generated stub, with KafkaError instead of gRPC's errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_server.rpc.deserializers import MAX_MESSAGE

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A frozen peer is disconnected about when its leases expire; its streams would not end otherwise.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the effective one; a minute by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit: the default stops after two pings of an idle stream
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


_NOTHING: dict[str, Any] = {}

NOT_SENT = "not_sent"
"""Metadata of an error: the server was not reached, so the request was surely not executed."""


class RemoteStub:
    """Wraps a generated asyncio stub. Raises KafkaError."""

    def __init__(self, stub: object) -> None:
        self._stub = stub

    def __getattr__(self, method: str) -> Callable[..., Any]:
        callable_ = getattr(self._stub, method)
        call = (
            self._streaming(callable_)
            if isinstance(callable_, grpc.aio.StreamStreamMultiCallable)
            else self._unary(callable_)
        )
        setattr(self, method, call)
        return call

    def _streaming(self, callable_: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        async def call(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
            stream = _start(callable_, requests)
            try:
                async for response in stream:
                    yield response
            except grpc.aio.AioRpcError as failure:
                raise _error(failure) from failure
            finally:
                stream.cancel()

        return call

    def _unary(self, callable_: Callable[..., Any]) -> Callable[..., Any]:
        async def call(request: Any, *, timeout: float | None = None) -> Any:
            try:
                return await _start(callable_, request, timeout=timeout, **_trace_metadata())
            except grpc.aio.AioRpcError as failure:
                raise _error(failure) from failure

        return call


def _trace_metadata() -> dict[str, Any]:
    """Returns the trace context of a call as metadata."""
    if tracing.on is None:
        return _NOTHING
    from sharebroker_server.telemetry import grpc_context  # imports OpenTelemetry's API

    return {"metadata": grpc_context.outgoing(tracing.on)}


def _start(callable_: Callable[..., Any], request: Any, **options: Any) -> Any:
    try:
        return callable_(request, **options)
    except grpc.aio.UsageError as failure:  # the channel was closed: its broker left
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "The broker has left the cluster.",
            metadata={NOT_SENT: "true"},
        ) from failure


def _error(failure: grpc.aio.AioRpcError) -> KafkaError:
    error = from_rpc_error(failure)
    unconnected = (failure.details() or "").startswith("failed to connect")
    if failure.code() is grpc.StatusCode.UNAVAILABLE and unconnected:
        error.metadata[NOT_SENT] = "true"
    return error
