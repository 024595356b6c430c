"""Errors and limits of every server.

A KafkaError ends the call with its status; other exceptions are logged. Calls beyond the limits are rejected
before they reach the servicer, as are requests that are too large or cannot be decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from traceback import clear_frames
from typing import Any, Final, cast

import grpc
import structlog
from google.protobuf.message import DecodeError
from typing_extensions import override

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import abort
from sharebroker_protocol.status.v1 import status_pb2
from sharebroker_server.rpc.call_metrics import CANCELLED, OK, CallCounts, MethodCounts

_RETRY_AFTER: Final = 0.5


class CallLimits:
    """Counts calls and streams, at most `max_calls`, and bytes of unary requests, about `max_bytes`.

    A request is accepted while the total is below the limit, so an idle server serves a request of any legal
    size.
    """

    __slots__ = ("_bytes", "_calls", "_max_bytes", "_max_calls")

    def __init__(self, max_calls: int = 20_000, max_bytes: int = 128 << 20) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._calls = 0
        self._bytes = 0

    @contextmanager
    def call(self, size: int = 0) -> Iterator[None]:
        """Counts a call with `size` request bytes while it is served. Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._calls >= self._max_calls:
            raise _rejected(f"{self._calls} calls are in flight, which is the limit.")
        if size and self._bytes >= self._max_bytes:
            raise _rejected(f"requests of {self._bytes} bytes are in flight, which is the limit.")
        self._calls += 1
        self._bytes += size
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= size


def _rejected(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"This server is busy: {reason}", retry_after=_RETRY_AFTER
    )


Read = Callable[[bytes], Any]

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Maximum bytes of a served request."""

MAX_READ: Final = 2 * MAX_MESSAGE
"""Maximum bytes of a request that is read and rejected with details;

gRPC rejects larger ones without details.
"""


def raising_kafka_errors(parse: Read) -> Read:
    """Returns `parse` that raises MESSAGE_TOO_LARGE, and INVALID_REQUEST for bytes of no such message."""

    def read(data: bytes) -> Any:
        if len(data) > MAX_MESSAGE:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A message of {len(data)} bytes is larger than {MAX_MESSAGE}.",
                metadata={"max_message_bytes": str(MAX_MESSAGE)},
            )
        try:
            return parse(data)
        except DecodeError as failure:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The message cannot be decoded: {failure}."
            ) from failure

    return read


def returning_errors(read: Read) -> Read:
    """Returns `read` that returns its error:

    where gRPC reads unary requests, an error cannot carry details.
    """

    def read_or_error(data: bytes) -> Any:
        try:
            return read(data)
        except KafkaError as error:
            return error

    return read_or_error


_log = structlog.get_logger()

_RESERVE: Final = 0.05


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Converts exceptions of servicers to a gRPC status with details. A handler is wrapped once per method.

    Calls beyond `limits` are rejected before they reach the servicer.
    """

    def __init__(self, limits: CallLimits | None = None, counts: CallCounts | None = None) -> None:
        self._limits = limits or CallLimits()
        self._counts = counts or CallCounts()
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = handler_call_details.method
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None or method.startswith("/grpc."):
                return handler
            self._wrapped[method] = _wrap(handler, self._limits, self._counts.of(method))
        return self._wrapped[method]


def _wrap(
    handler: grpc.RpcMethodHandler[Any, Any], limits: CallLimits, counts: MethodCounts
) -> grpc.RpcMethodHandler[Any, Any]:
    read = raising_kafka_errors(cast("Callable[[bytes], Any]", handler.request_deserializer))
    if handler.stream_stream is not None:
        return grpc.stream_stream_rpc_method_handler(
            _streaming(cast("Callable[..., Any]", handler.stream_stream), limits, counts),
            request_deserializer=read,
            response_serializer=handler.response_serializer,
        )
    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(
            _streaming(cast("Callable[..., Any]", handler.unary_stream), limits, counts),
            request_deserializer=returning_errors(read),
            response_serializer=handler.response_serializer,
        )
    return grpc.unary_unary_rpc_method_handler(
        _unary(cast("Callable[..., Any]", handler.unary_unary), limits, counts),
        request_deserializer=returning_errors(read),
        response_serializer=handler.response_serializer,
    )


def _unary(behaviour: Callable[..., Any], limits: CallLimits, counts: MethodCounts) -> Callable[..., Any]:
    async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        limit = asyncio.timeout(_server_timeout(context))
        started, outcome = perf_counter(), CANCELLED
        counts.in_flight += 1
        try:
            if isinstance(request, KafkaError):
                raise request
            with limits.call(_size(request)):
                async with limit:
                    response = await _served(counts.path, behaviour, request, context)
            outcome = OK
            return response
        except Exception as failure:
            outcome, request = "", None  # an aborted call is kept: see `_abort`
            await _abort(counts, context, _timed_out() if limit.expired() else failure)
        finally:
            counts.ended(outcome)
            counts.seconds.add_seconds(perf_counter() - started)

    return handle


def _served(
    method: str, behaviour: Callable[..., Awaitable[Any]], request: Any, context: Any
) -> Awaitable[Any]:
    if tracing.on is None:
        return behaviour(request, context)
    from sharebroker_server.telemetry import grpc_context  # imports OpenTelemetry's API

    return grpc_context.serve(tracing.on, method, behaviour, request, context)


def _size(request: Any) -> int:
    return len(request) if isinstance(request, bytes) else int(request.ByteSize())


def _server_timeout(context: grpc.aio.ServicerContext[Any, Any]) -> float | None:
    """Returns a time-out shortly before the caller's deadline, so that the caller receives the reason."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else remaining - min(_RESERVE, remaining / 20)


def _timed_out() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The server could not respond in time; the request may or may not have been executed.",
    )


def _streaming(
    behaviour: Callable[..., AsyncIterator[Any]], limits: CallLimits, counts: MethodCounts
) -> Callable[..., AsyncIterator[Any]]:
    async def handle(requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        outcome = CANCELLED
        counts.in_flight += 1
        try:
            if isinstance(requests, KafkaError):
                raise requests
            with limits.call():
                async for response in behaviour(requests, context):
                    yield response
            outcome = OK
        except Exception as failure:
            outcome = ""
            await _abort(counts, context, failure)
        finally:
            counts.ended(outcome)

    return handle


async def _abort(
    counts: MethodCounts, context: grpc.aio.ServicerContext[Any, Any], failure: Exception
) -> None:
    """Ends a call with a status.

    gRPC keeps the error, its tracebacks and the frames in a reference cycle until the next collection of
    cycles. The local variables of these frames are cleared, because they refer to the request.
    """
    counts.failed(failure)
    if isinstance(failure, grpc.aio.AbortError):
        raise failure
    if not isinstance(failure, KafkaError):
        _log.error("unexpected exception in a call", method=counts.method, exc_info=failure)
        clear_frames(failure.__traceback__)
        failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed unexpectedly; see its log.")
    clear_frames(failure.__traceback__)
    await abort(context, failure)


def wire(code: ErrorCode) -> status_pb2.ErrorCode.ValueType:
    """Returns an error code as the value of a message field."""
    return cast("status_pb2.ErrorCode.ValueType", int(code))


def refusal(error: KafkaError | None) -> dict[str, Any]:
    """Returns the error fields of a part; none for a part that succeeded."""
    return {"error_code": wire(error.code), "error_message": error.message} if error else {}
