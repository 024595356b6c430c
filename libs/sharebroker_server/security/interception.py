"""What the checks of gRPC callers share: their address, their certificate, handlers that reject or check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc

if TYPE_CHECKING:  # the class of gRPC takes no parameters
    Handler = grpc.RpcMethodHandler[Any, Any]

_SUBJECT: Final = "x509_subject"
"""gRPC's property with the subject of a verified client certificate, in RFC 2253 form."""


_CERTIFICATE: Final = "x509_pem_cert"
"""gRPC's property with a verified client certificate in PEM."""

_END: Final = object()

Check = Callable[[Any], Awaitable[None]]
"""Aborts the call of a context, or returns."""


def rejecting(reject: Check) -> Handler:
    """Returns a handler that calls `reject`; a streaming one, because it reads no message."""

    async def handle(_requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await reject(context)

    return grpc.stream_stream_rpc_method_handler(handle)


def checked(handler: Handler, check: Check) -> Handler:
    """Returns the handler behind a check that needs the context of the call.

    The request of a denied call is not deserialized.
    """
    read: Callable[[bytes], Any] = handler.request_deserializer or bytes
    write = handler.response_serializer
    single, response_stream = handler.unary_unary, handler.unary_stream or handler.stream_stream

    if single is not None:

        async def call(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            await check(context)
            unary: Callable[..., Any] = single
            return await unary(read(data), context)

        return grpc.unary_unary_rpc_method_handler(call, None, write)
    if response_stream is None:
        return _reading(handler, check)

    async def stream(requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        await check(context)
        streaming: Callable[..., Any] = response_stream
        several = handler.request_streaming
        request = (read(data) async for data in requests) if several else read(requests)
        async for response in streaming(request, context):
            yield response

    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(stream, None, write)
    return grpc.unary_stream_rpc_method_handler(stream, None, write)


def _reading(handler: Handler, check: Check) -> Handler:
    """Returns `checked` for a unary method whose handler reads the request itself: one of client streams."""
    unary: Any = handler.stream_unary

    async def call(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await check(context)
        return await unary(requests, context)

    read, write = handler.request_deserializer, handler.response_serializer
    return grpc.stream_unary_rpc_method_handler(call, read, write)


def ending(handler: Handler, ends_at: float, reject: Check, now: Callable[[], float] = time) -> Handler:
    """Returns a stream's handler that calls `reject` at `ends_at`, in seconds since the epoch.

    A response that the client does not read delays the end; the client receives no further one.
    """
    streaming: Callable[..., Any] | None = handler.stream_stream

    async def stream(
        requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        assert streaming is not None, "only streams end"
        deadline = asyncio.get_running_loop().time() + ends_at - now()
        responses = streaming(requests, context)
        try:
            while True:
                async with asyncio.timeout_at(deadline):
                    response = await anext(responses, _END)
                if response is _END:
                    return
                yield response
        except TimeoutError:
            await reject(context)
        finally:
            await responses.aclose()

    read, write = handler.request_deserializer, handler.response_serializer
    return grpc.stream_stream_rpc_method_handler(stream, read, write)


def certificate_of(context: grpc.aio.ServicerContext[Any, Any]) -> bytes | None:
    """Returns the caller's verified certificate in PEM; None without one."""
    return next(iter(context.auth_context().get(_CERTIFICATE, ())), None)


def certificate_subjects(context: grpc.aio.ServicerContext[Any, Any]) -> list[str]:
    """Returns the subject of the caller's verified certificate; empty without one."""
    found = context.auth_context().get(_SUBJECT, ())
    return [subject.decode("utf-8", "replace") for subject in found]


def host_of(peer: str) -> str:
    """Returns the address of a gRPC peer without scheme and port: `ipv4:10.0.0.7:5000` is `10.0.0.7`."""
    if not peer.startswith(("ipv4:", "ipv6:")):
        return peer
    address = unquote(peer.partition(":")[2])
    return address.rpartition(":")[0].strip("[]")
