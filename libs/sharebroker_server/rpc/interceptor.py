"""Wraps the handlers of every method: limits, metrics, and the status of errors.

A KafkaError ends the call with its status; other exceptions are logged. Calls beyond the limits are rejected
before they reach the servicer, as are requests that are too large or cannot be decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import grpc
import structlog
from typing_extensions import override

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import abort
from sharebroker_server.rpc.call_metrics import CANCELLED, OK, CallCounts, MethodCounts
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.requests import ListenerRequests, MethodRequests

_log = structlog.get_logger()

_RESERVE: Final = 0.05


if TYPE_CHECKING:  # the class of gRPC takes no parameters
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]

_Behaviour = Callable[..., AsyncIterator[Any]]
"""A method of a servicer that returns a stream."""


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Converts exceptions of servicers to a gRPC status with details. A handler is wrapped once per method.

    Calls beyond `limits` are rejected before they reach the servicer.
    """

    def __init__(self, limits: CallLimits | None = None, counts: CallCounts | None = None) -> None:
        self._limits = limits or CallLimits()
        self._counts = counts or CallCounts()
        self._requests = ListenerRequests()
        self._wrapped: dict[str, Handler] = {}

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None:
                return handler
            self._wrapped[method] = self._wrap(method, handler)
        return self._wrapped[method]

    def _wrap(self, method: str, handler: Handler) -> Handler:
        parse = cast("Callable[[bytes], Any]", handler.request_deserializer)
        requests = self._requests.of(method, parse)
        if method.startswith("/grpc."):
            return _bounded(handler, requests)
        call = _Call(self._limits, self._counts.of(method), requests)
        if handler.stream_stream is not None:
            return _stream_handler(handler, _streaming(cast("_Behaviour", handler.stream_stream), call))
        if handler.unary_stream is not None:
            behaviour = cast("_Behaviour", handler.unary_stream)
            return _stream_handler(handler, _streaming(behaviour, call, one_request=True))
        unary: Any = _unary(cast("Callable[..., Any]", handler.unary_unary), call)
        if requests.of_clients:  # a handler of streams decides when gRPC reads the request
            return grpc.stream_unary_rpc_method_handler(
                unary, response_serializer=handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(unary, response_serializer=handler.response_serializer)


def _stream_handler(handler: Handler, streaming: _Behaviour) -> Handler:
    return grpc.stream_stream_rpc_method_handler(streaming, response_serializer=handler.response_serializer)


class _Call(NamedTuple):
    """What the calls of one method share."""

    limits: CallLimits
    counts: MethodCounts
    requests: MethodRequests


def _bounded(handler: Handler, requests: MethodRequests) -> Handler:
    """Returns a handler of gRPC's own services, health and reflection, whose requests are limited.

    Without it, gRPC decodes the requests, and reports a malformed one as UNKNOWN.
    """
    if handler.stream_stream is not None:
        return _stream_handler(handler, _bounded_stream(cast("_Behaviour", handler.stream_stream), requests))
    single = handler.unary_unary or handler.unary_stream
    bounded: Any = _bounded_call(cast("Callable[..., Any]", single), requests)
    if handler.unary_stream is not None:
        return _stream_handler(handler, bounded)
    return grpc.stream_unary_rpc_method_handler(bounded, response_serializer=handler.response_serializer)


def _bounded_call(behaviour: Callable[..., Any], requests: MethodRequests) -> Callable[..., Any]:
    """Returns a coroutine function; one that returns a stream writes it to its context."""

    async def call(_requests: object, context: Context) -> Any:
        try:
            request = await requests.only_message(context)
        except KafkaError as error:
            return await abort(context, error)
        return await behaviour(request, context)

    return call


def _bounded_stream(behaviour: _Behaviour, requests: MethodRequests) -> _Behaviour:
    async def stream(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(requests.messages(messages, context), context):
                yield response
        except KafkaError as error:
            await abort(context, error)

    return stream


def _unary(behaviour: Callable[..., Any], call: _Call) -> Callable[..., Any]:
    counts = call.counts

    async def handle(request: Any, context: Context) -> Any:
        limit = asyncio.timeout(_server_timeout(context))
        started, outcome = perf_counter(), CANCELLED
        counts.in_flight += 1
        try:
            with call.limits.call():
                async with limit:
                    request = await call.requests.data(request, context)
                    with call.limits.request(len(request)):
                        request = await call.requests.message(request)
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


def _server_timeout(context: Context) -> float | None:
    """Returns a time-out shortly before the caller's deadline, so that the caller receives the reason."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else remaining - min(_RESERVE, remaining / 20)


def _timed_out() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The server could not respond in time; the request may or may not have been executed.",
    )


def _streaming(behaviour: _Behaviour, call: _Call, *, one_request: bool = False) -> _Behaviour:
    counts = call.counts

    async def handle(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        outcome = CANCELLED
        counts.in_flight += 1
        try:
            with call.limits.call(), call.limits.stream(_connection_of(call, context)):
                read: Any = call.requests.messages(requests, context)
                if one_request:
                    read = await call.requests.only_message(context)
                async for response in behaviour(read, context):
                    yield response
            outcome = OK
        except Exception as failure:
            outcome = ""
            await _abort(counts, context, failure)
        finally:
            counts.ended(outcome)

    return handle


def _connection_of(call: _Call, context: Context) -> str | None:
    """Returns the connection of a client; None for a process of the cluster: its streams have no limit."""
    return context.peer() if call.requests.of_clients else None


async def _abort(counts: MethodCounts, context: Context, failure: Exception) -> None:
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
