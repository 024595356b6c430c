"""Stubs for a servicer in the same process and for one in another process; both raise KafkaError.

Within a process the caller receives the message object that the servicer returned. Neither side changes a
message afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc

from sharebroker_protocol import tracing
from sharebroker_protocol.address import CONNECT_TIMEOUT
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_server.rpc.message_limits import MAX_MESSAGE, MAX_RESPONSE


class LocalContext:
    """The servicer context of a call without a connection."""

    def peer(self) -> str:
        """Returns the caller's address in gRPC's format."""
        return "local:"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns no metadata."""
        return ()


class LocalStub:
    """Replaces a generated asyncio stub: unary methods accept (request, timeout=seconds), others an iterator.

    A servicer lists its streaming methods in `STREAMING`. Calls raise the servicer's KafkaError, or
    REQUEST_TIMED_OUT.
    """

    def __init__(self, servicer: object) -> None:
        self._servicer = servicer
        self._context = LocalContext()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        handler = getattr(self._servicer, method)
        streams = method in getattr(self._servicer, "STREAMING", ())
        call: Callable[..., Any] = self._streaming(handler) if streams else self._unary(handler)
        setattr(self, method, call)
        return call

    def _streaming(self, handler: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        def call(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
            return cast("AsyncIterator[Any]", handler(requests, self._context))

        return call

    def _unary(self, handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, *, timeout: float | None = None) -> Any:
            try:
                async with asyncio.timeout(timeout):
                    return await handler(request, self._context)
            except TimeoutError:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.") from None

        return call


CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_RESPONSE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A frozen peer is disconnected about when its leases expire; its streams would not end otherwise.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # the effective one; a minute by default
    ("grpc.http2.max_pings_without_data", 0),  # no limit: the default stops after two pings of an idle stream
    CONNECT_TIMEOUT,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


_NOTHING: dict[str, Any] = {}

_DENIED_RETRY_AFTER = 0.5

NOT_SENT = "not_sent"
"""Metadata of an error: the server was not reached, so the request was surely not executed."""


Metadata = tuple[tuple[str, str], ...]


class RemoteStub:
    """Wraps a generated asyncio stub of a peer. Raises KafkaError.

    `identify` returns the metadata by which the peer recognises this process, for each call.
    """

    def __init__(self, stub: object, identify: Callable[[], Metadata] | None = None) -> None:
        self._stub = stub
        self._identify = identify

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
            stream = _start(callable_, requests, **self._identity())
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
                return await _start(callable_, request, timeout=timeout, **self._metadata())
            except grpc.aio.AioRpcError as failure:
                raise _error(failure) from failure

        return call

    def _identity(self) -> dict[str, Any]:
        return _NOTHING if self._identify is None else {"metadata": self._identify()}

    def _metadata(self) -> dict[str, Any]:
        """Returns the identity and the trace context as the option of a call."""
        if tracing.on is None:
            return self._identity()
        from sharebroker_server.telemetry import grpc_context  # imports OpenTelemetry's API

        identity = () if self._identify is None else self._identify()
        return {"metadata": (*identity, *(grpc_context.outgoing(tracing.on) or ()))}


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
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # Not an error of the client whose request this call serves; it ends when the secrets agree again.
        return KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "A broker does not accept the cluster secret of another one.",
            metadata={**error.metadata, NOT_SENT: "true"},
            retry_after=_DENIED_RETRY_AFTER,
        )
    unconnected = (failure.details() or "").startswith("failed to connect")
    if failure.code() is grpc.StatusCode.UNAVAILABLE and unconnected:
        error.metadata[NOT_SENT] = "true"
    return error
