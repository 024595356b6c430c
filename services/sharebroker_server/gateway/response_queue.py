"""The responses that wait to be sent on a stream of a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

UNSENT_MESSAGES: Final = 4
"""Messages that a Consume stream stores for a client that does not read; then its leaders wait."""


M = TypeVar("M")


class ResponseQueue(Generic[M]):
    """A queue of at most `limit` messages that ends, or ends with an error.

    `put` waits for room, which passes the back-pressure of a slow client on.
    """

    __slots__ = ("_queue",)

    def __init__(self, limit: int) -> None:
        self._queue: asyncio.Queue[M | BaseException | None] = asyncio.Queue(limit)

    async def put(self, message: M) -> None:
        """Adds a message; waits for room."""
        await self._queue.put(message)

    async def end(self) -> None:
        """Ends the queue behind its messages."""
        await self._queue.put(None)

    def fail(self, error: BaseException) -> None:
        """Ends the queue at once with `error` and drops its messages."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(error)

    async def __aiter__(self) -> AsyncIterator[M]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
