"""Calls to a servicer in the same process, with the interface of the generated stub.

The caller receives the message object that the servicer returned. Neither side changes a message afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError


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
