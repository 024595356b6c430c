"""Calls to a servicer in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.stubs import LocalStub


class Servicer:
    """Echoes requests."""

    STREAMING = ("Stream",)

    async def Call(self, request: str, context: Any) -> str:
        assert (context.peer(), context.invocation_metadata()) == ("local:", ())
        if request == "wait":
            await asyncio.Event().wait()
        return request

    async def Stream(self, requests: AsyncIterator[str], context: Any) -> AsyncIterator[str]:
        async for request in requests:
            yield request


async def test_unary_calls_return_the_servicers_object() -> None:
    stub = LocalStub(Servicer())
    request = "request"
    assert await stub.Call(request) is request
    with pytest.raises(KafkaError) as late:
        await stub.Call("wait", timeout=0.01)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_streaming_methods_return_iterators() -> None:
    async def requests() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    assert [response async for response in LocalStub(Servicer()).Stream(requests())] == ["a", "b"]
