"""A connection's buffers of requests and responses, and the bounds on the memory of all connections."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from sharebroker_server.kafka_wire.frames import FrameSplitter

READ_AHEAD: Final = 64 * 1024
"""Bytes of requests that every connection may buffer; further bytes need the shared memory budget."""

FLUSH_SIZE: Final = 64 * 1024
"""Bytes that are sent without waiting for further responses."""


class RequestBuffer:
    """Requests that arrived and are not yet answered. `now` is in seconds of the loop's clock.

    Bytes beyond READ_AHEAD reserve a part of the shared budget from the start of a request until its
    response. Until the reservation is granted, nothing is read from the client. Small requests of one client
    therefore never wait for large requests of others.
    """

    __slots__ = (
        "_begun_at",
        "_budget",
        "_buffered",
        "_closed",
        "_frames",
        "_paused",
        "_queued",
        "_requested",
        "_reserved",
        "_splitter",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, max_request_bytes: int, budget: MemoryBudget) -> None:
        self._transport = transport
        self._budget = budget
        self._splitter = FrameSplitter(max_request_bytes)
        self._frames: deque[bytes] = deque()
        self._queued = 0
        self._buffered = 0
        self._reserved = 0
        self._requested = 0
        self._paused = False
        self._closed = False
        self._begun_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def limit(self, max_request_bytes: int) -> None:
        """Changes the limit of requests that have not begun to arrive."""
        self._splitter.max_bytes = max_request_bytes

    def add(self, data: bytes, now: float) -> None:
        """Adds received bytes. Raises BadMessage; complete requests before the invalid one are kept."""
        frames: list[bytes] = []
        begun = self._splitter.begun
        try:
            self._splitter.split(data, frames)
        finally:
            if frames or not begun:
                self._begun_at = now
            self._frames += frames
            size = sum(map(len, frames))
            self._queued += size
            self._buffered += size
            self._regulate()

    @property
    def empty(self) -> bool:
        """Whether there is no request, not even a part of one."""
        return not self._frames and not self._splitter.begun

    @property
    def first(self) -> bytes:
        """The oldest request."""
        return self._frames[0]

    def pop(self) -> bytes:
        """Removes and returns the oldest request."""
        frame = self._frames.popleft()
        self._queued -= len(frame)
        return frame

    def done(self, size: int) -> None:
        """Frees the memory of answered requests of this size."""
        self._buffered -= size
        self._regulate()

    def stalled(self, now: float, stall_timeout: float) -> bool:
        """Returns whether a request is stalled.

        It has been incomplete for more than `stall_timeout` seconds, not counting time in which reading was
        paused.
        """
        if self._paused:
            self._begun_at = now
        return self._splitter.begun and now - self._begun_at > stall_timeout

    def close(self) -> None:
        """Discards all requests and frees their memory."""
        if self._closed:
            return
        self._closed = True
        self._frames.clear()
        if self._requested:
            self._budget.withdraw(self._requested, self._granted)
        self._budget.release(self._reserved)

    def _regulate(self) -> None:
        """Reserves or releases budget for the buffered bytes, and pauses or resumes reading."""
        if self._closed:
            return
        needed = max(self._buffered + self._splitter.size - READ_AHEAD, 0)
        more = needed - self._reserved - self._requested
        if more > 0 and not self._requested:
            if self._budget.reserve(more, self._granted):
                self._reserved += more
            else:
                self._requested = more
        elif more < 0 and self._reserved:
            less = min(-more, self._reserved)
            self._reserved -= less
            self._budget.release(less)
        self._pause(self._requested > 0 or self._queued > READ_AHEAD)

    def _granted(self) -> None:
        self._reserved += self._requested
        self._requested = 0
        self._regulate()

    def _pause(self, paused: bool) -> None:
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


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
        """Sends a response.

        With `more` it waits in a batch for the responses that follow in this loop iteration.
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


class MemoryBudget:
    """`limit` bytes for large requests. Reservations beyond the limit are granted in order.

    A request larger than the limit is admitted when the budget is unused.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        """Bytes that are reserved."""
        self._limit = limit
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def reserve(self, size: int, granted: Callable[[], None]) -> bool:
        """Reserves `size` bytes. Returns True if they are available; else calls `granted` once they are."""
        if self._waiting or not self._fits(size):
            self._waiting.append((size, granted))
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        """Releases `size` reserved bytes."""
        self.used -= size
        self._admit()

    def withdraw(self, size: int, granted: Callable[[], None]) -> None:
        """Withdraws a waiting reservation."""
        self._waiting.remove((size, granted))
        self._admit()

    def _fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, granted = self._waiting.popleft()
            self.used += size
            granted()


class UnreadResponses:
    """Responses that clients do not read, at most `limit` bytes.

    Beyond the limit, the client that has gone longest without reading is disconnected.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._owners: dict[Callable[[], None], int] = {}

    def add(self, size: int, disconnect: Callable[[], None]) -> None:
        """Adds `size` unread bytes of a client.

        `disconnect` closes its connection and does not have to call `remove`.
        """
        self._owners[disconnect] = size
        self.bytes += size
        while self.bytes > self._limit and len(self._owners) > 1:
            disconnect_longest = next(iter(self._owners))
            self.remove(disconnect_longest)
            disconnect_longest()

    def remove(self, disconnect: Callable[[], None]) -> None:
        """Removes the bytes of a client that read them or is disconnected."""
        self.bytes -= self._owners.pop(disconnect, 0)
