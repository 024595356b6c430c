"""Calls to a servicer in the same process: the generated stub's shape, without a socket.

What a servicer returns reaches the caller as the same message object: neither side changes a message after it
has handed it over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError


class LocalContext:
    """What a servicer may ask of a call that has no connection."""

    def peer(self) -> str:
        """Names the caller as gRPC does."""
        return "local:"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """A local call carries none."""
        return ()


class LocalStub:
    """Stands for a generated asyncio stub: unary methods take (request, timeout=seconds), others an iterator.

    A servicer names its streaming methods in `STREAMING`. Raises KafkaError: what the servicer raised, or
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
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No answer within {timeout} s.") from None

        return call
