"""How the handlers of each kind of method are wrapped."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from sharebroker_server.rpc.interceptor import ErrorInterceptor


class Details(grpc.HandlerCallDetails):
    def __init__(self, method: str) -> None:
        self.method = method
        self.invocation_metadata = ()


async def nothing(*_: object) -> None:
    return None


async def wrapped(method: str, handler: Any) -> Any:
    async def found(_: object) -> Any:
        return handler

    return await ErrorInterceptor().intercept_service(found, Details(method))


UNARY: Any = grpc.unary_unary_rpc_method_handler(nothing)
RESPONSES: Any = grpc.unary_stream_rpc_method_handler(nothing)
STREAMS: Any = grpc.stream_stream_rpc_method_handler(nothing)


@pytest.mark.parametrize(
    ("method", "handler", "kind"),
    [
        ("/sharebroker.gateway.v1.ShareService/Acquire", UNARY, "stream_unary"),
        ("/sharebroker.gateway.v1.ShareService/Consume", STREAMS, "stream_stream"),
        ("/externalscaler.ExternalScaler/StreamIsActive", RESPONSES, "stream_stream"),
        ("/sharebroker.cluster.v1.ClusterService/CreateTopics", UNARY, "unary_unary"),
        ("/grpc.health.v1.Health/Check", UNARY, "stream_unary"),
        ("/grpc.health.v1.Health/Watch", RESPONSES, "stream_stream"),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", STREAMS, "stream_stream"),
    ],
)
async def test_requests_of_clients_are_read_by_the_handler(method: str, handler: Any, kind: str) -> None:
    """gRPC reads the request of a unary handler before it calls it; a handler of streams reads it itself."""
    assert getattr(await wrapped(method, handler), kind) is not None


async def test_unknown_methods_stay_unknown() -> None:
    assert await wrapped("/unknown.Service/Method", None) is None
