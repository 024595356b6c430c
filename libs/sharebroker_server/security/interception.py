"""What the checks of gRPC callers share: the certificate of a caller, and a handler that rejects its call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import grpc

if TYPE_CHECKING:  # the class of gRPC takes no parameters
    Handler = grpc.RpcMethodHandler[Any, Any]

_SUBJECT: Final = "x509_subject"
"""gRPC's property with the subject of a verified client certificate, in RFC 2253 form."""


def rejecting(reject: Callable[[grpc.aio.ServicerContext[Any, Any]], Awaitable[None]]) -> Handler:
    """Returns a handler that calls `reject`; a streaming one, because it reads no message."""

    async def handle(_requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await reject(context)

    return grpc.stream_stream_rpc_method_handler(handle)


def certificate_subjects(context: grpc.aio.ServicerContext[Any, Any]) -> list[str]:
    """Returns the subject of the caller's verified certificate; empty without one."""
    found = context.auth_context().get(_SUBJECT, ())
    return [subject.decode("utf-8", "replace") for subject in found]
