"""The edge of every server: a KafkaError ends the call with its status; what else goes wrong is logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any, Final, cast

import grpc
import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import status_code, status_message, trailing_metadata
from sharebroker_protocol.tracing import enabled
from sharebroker_server.rpc.call_metrics import CANCELLED, OK, CallCounts, MethodCounts
from sharebroker_server.rpc.deserializers import holding, reading
from sharebroker_server.rpc.limits import UnderWay

_log = structlog.get_logger()

_RESERVE: Final = 0.05


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns what a servicer raises into a gRPC status with details. Handlers are wrapped once a method.

    What would be more than `limits` allow is refused before a servicer hears of it.
    """

    def __init__(self, limits: UnderWay | None = None, counts: CallCounts | None = None) -> None:
        self._limits = limits or UnderWay()
        self._counts = counts or CallCounts()
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """See grpc.aio.ServerInterceptor."""
        method = handler_call_details.method
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None or method.startswith("/grpc."):
                return handler
            self._wrapped[method] = _wrap(handler, self._limits, self._counts.of(method))
        return self._wrapped[method]


def _wrap(
    handler: grpc.RpcMethodHandler[Any, Any], limits: UnderWay, counts: MethodCounts
) -> grpc.RpcMethodHandler[Any, Any]:
    read = reading(cast("Callable[[bytes], Any]", handler.request_deserializer))
    if handler.stream_stream is not None:
        return grpc.stream_stream_rpc_method_handler(
            _streaming(cast("Callable[..., Any]", handler.stream_stream), limits, counts),
            request_deserializer=read,
            response_serializer=handler.response_serializer,
        )
    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(
            _streaming(cast("Callable[..., Any]", handler.unary_stream), limits, counts),
            request_deserializer=holding(read),
            response_serializer=handler.response_serializer,
        )
    return grpc.unary_unary_rpc_method_handler(
        _unary(cast("Callable[..., Any]", handler.unary_unary), limits, counts),
        request_deserializer=holding(read),
        response_serializer=handler.response_serializer,
    )


def _unary(behaviour: Callable[..., Any], limits: UnderWay, counts: MethodCounts) -> Callable[..., Any]:
    async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        limit = asyncio.timeout(_time_left(context))
        begun, outcome = perf_counter(), CANCELLED
        counts.under_way += 1
        try:
            if isinstance(request, KafkaError):
                raise request
            with limits.call(_size(request)):
                async with limit:
                    answer = await _served(counts.path, behaviour, request, context)
            outcome = OK
            return answer
        except Exception as failure:
            outcome = ""
            await _abort(counts, context, _late() if limit.expired() else failure)
        finally:
            counts.ended(outcome)
            counts.seconds.add_seconds(perf_counter() - begun)

    return handle


def _served(
    method: str, behaviour: Callable[..., Awaitable[Any]], request: Any, context: Any
) -> Awaitable[Any]:
    if enabled.on is None:
        return behaviour(request, context)
    from sharebroker_server.telemetry.tracing import grpc_context  # brings OpenTelemetry in

    return grpc_context.serve(enabled.on, method, behaviour, request, context)


def _size(request: Any) -> int:
    return len(request) if isinstance(request, bytes) else int(request.ByteSize())


def _time_left(context: grpc.aio.ServicerContext[Any, Any]) -> float | None:
    """Ends just before the caller's own clock does, so that it hears why."""
    left: float | None = context.time_remaining()
    return None if left is None else left - min(_RESERVE, left / 20)


def _late() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        "The server could not answer in time; it may or may not have done what was asked.",
    )


def _streaming(
    behaviour: Callable[..., AsyncIterator[Any]], limits: UnderWay, counts: MethodCounts
) -> Callable[..., AsyncIterator[Any]]:
    async def handle(requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        outcome = CANCELLED
        counts.under_way += 1
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
    counts.failed(failure)
    if isinstance(failure, grpc.aio.AbortError):
        raise failure
    if not isinstance(failure, KafkaError):
        _log.error("unexpected failure of a call", method=counts.method, exc_info=failure)
        failure = KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed unexpectedly; its log says why."
        )
    await context.abort(status_code(failure), status_message(failure), trailing_metadata(failure))
