"""What a stream is about to send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

M = TypeVar("M")


class Outbox(Generic[M]):
    """A queue of at most `limit` messages that ends, or ends with an error. Senders wait for the client."""

    __slots__ = ("_queue",)

    def __init__(self, limit: int) -> None:
        self._queue: asyncio.Queue[M | BaseException | None] = asyncio.Queue(limit)

    async def put(self, message: M) -> None:
        """Send a message; waits for room."""
        await self._queue.put(message)

    async def end(self) -> None:
        """Nothing follows."""
        await self._queue.put(None)

    def fail(self, error: BaseException) -> None:
        """End at once with `error`; what was not sent yet is dropped."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(error)

    async def __aiter__(self) -> AsyncIterator[M]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
