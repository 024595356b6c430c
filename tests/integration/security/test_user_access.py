"""A handler receives the principal that authenticated its call, unary or streaming."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.sasl import MECHANISMS
from sharebroker_server.security.user_access import UserAccess, caller
from tests.testkit.sasl import MemoryUsers

SECONDS = 10.0


async def unary(_: bytes, context: Any) -> bytes:
    return str(caller(context)).encode()


async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for _ in requests:
        yield str(caller(context)).encode()


@pytest.fixture
async def address() -> AsyncIterator[str]:
    authenticator = Authenticator(MECHANISMS, tls=True)
    authenticator.users = MemoryUsers({"alice": "pencil", "bob": "pen"})
    server = grpc.aio.server(interceptors=[UserAccess(authenticator)])
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Service", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)
    authenticator.passwords.close()


@pytest.mark.parametrize(("name", "password"), [("alice", "pencil"), ("bob", "pen")])
async def test_handlers_receive_the_principal_of_the_call(address: str, name: str, password: str) -> None:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    metadata = (("authorization", f"Basic {token}"),)
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel
        once = await raw.unary_unary("/test.Service/Unary")(b"", metadata=metadata, timeout=SECONDS)
        call = raw.stream_stream("/test.Service/Stream")(iter([b"", b""]), metadata=metadata, timeout=SECONDS)
        streamed = [response async for response in call]
    assert {once, *streamed} == {f"User:{name}".encode()}


async def test_a_call_without_credentials_reaches_no_handler(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw.unary_unary("/test.Service/Unary")(b"", timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
