"""Responses that a client has not read yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sharebroker_server.gateway.kafka.connection.memory_budget import UnreadResponses

FLUSH_SIZE: Final = 64 * 1024
"""Bytes that are sent without waiting for further responses."""


class ResponseBuffer:
    """Writes responses. `disconnect` ends the connection when other clients need the memory.

    `now` is in seconds of the loop's clock.
    """

    __slots__ = (
        "_batch",
        "_disconnect",
        "_drained",
        "_stalled_since",
        "_transport",
        "_unread",
        "_unread_bytes",
    )

    def __init__(
        self, transport: asyncio.Transport, unread: UnreadResponses, disconnect: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._unread = unread
        self._disconnect = disconnect
        self._drained: asyncio.Future[None] | None = None
        self._batch: bytearray | None = None
        self._unread_bytes = 0
        self._stalled_since = 0.0

    @property
    def full(self) -> bool:
        """Whether the client must read before it receives further responses."""
        return self._drained is not None

    async def drained(self) -> None:
        """Waits until the buffer is not full."""
        if self._drained is not None:
            await self._drained

    def write(self, content: bytearray, *, more: bool) -> None:
        """Sends a response; with `more` it waits in a batch for the responses that follow in this loop
        iteration.
        """
        if self._batch is not None:
            self._batch += content
        elif more:
            asyncio.get_running_loop().call_soon(self.flush)
            self._batch = content
        else:
            self._transport.write(content)
            return
        if not more or len(self._batch) > FLUSH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Sends the batch."""
        content, self._batch = self._batch, None
        if content is not None and not self._transport.is_closing():
            self._transport.write(content)

    def pause(self, now: float) -> None:
        """Marks the buffer as full: the transport holds more than its high-water mark."""
        self._drained = asyncio.get_running_loop().create_future()
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._stalled_since = now
        self._unread.add(self._unread_bytes, self._disconnect)

    def resume(self) -> None:
        """Marks the buffer as not full: the client has read, or is disconnected."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
            self._unread.remove(self._disconnect)

    def stalled(self, now: float, stall_timeout: float) -> bool:
        """Returns whether there are unread bytes and the client has read none for `stall_timeout` seconds."""
        unread = self._transport.get_write_buffer_size()
        if not unread or unread != self._unread_bytes:
            self._unread_bytes = unread
            self._stalled_since = now
        return now - self._stalled_since > stall_timeout
