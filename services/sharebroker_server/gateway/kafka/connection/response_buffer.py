"""Answers on their way to a client that may be slow to read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sharebroker_server.gateway.kafka.connection.memory_budget import Untaken

ENOUGH: Final = 64 * 1024
"""Bytes that are sent without waiting for more of them."""


class Outgoing:
    """Writes answers; `drop` ends the connection when others need the room. `now` as in Incoming."""

    __slots__ = ("_drained", "_drop", "_gathered", "_left", "_since", "_transport", "_untaken")

    def __init__(self, transport: asyncio.Transport, untaken: Untaken, drop: Callable[[], None]) -> None:
        self._transport = transport
        self._untaken = untaken
        self._drop = drop
        self._drained: asyncio.Future[None] | None = None
        self._gathered: bytearray | None = None
        self._left = 0
        self._since = 0.0

    @property
    def full(self) -> bool:
        """Whether the client has to take something before it gets more."""
        return self._drained is not None

    async def drained(self) -> None:
        """Wait until it has."""
        if self._drained is not None:
            await self._drained

    def write(self, content: bytearray, *, more: bool) -> None:
        """Send an answer; where `more` may be made at once, with those that are."""
        if self._gathered is not None:
            self._gathered += content
        elif more:
            asyncio.get_running_loop().call_soon(self.flush)
            self._gathered = content
        else:
            self._transport.write(content)
            return
        if not more or len(self._gathered) > ENOUGH:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        content, self._gathered = self._gathered, None
        if content is not None and not self._transport.is_closing():
            self._transport.write(content)

    def pause(self, now: float) -> None:
        """The transport holds more than it should."""
        self._drained = asyncio.get_running_loop().create_future()
        self._left = self._transport.get_write_buffer_size()
        self._since = now
        self._untaken.add(self._left, self._drop)

    def resume(self) -> None:
        """The client has read, or is gone."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
            self._untaken.remove(self._drop)

    def late(self, now: float, patience: float) -> bool:
        """Whether the client has taken nothing for `patience` seconds although there is something."""
        left = self._transport.get_write_buffer_size()
        if not left or left != self._left:
            self._left = left
            self._since = now
        return now - self._since > patience
