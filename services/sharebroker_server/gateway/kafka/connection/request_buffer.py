"""Splits a client's bytes into requests, and pauses reading while too many of its bytes are buffered."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from sharebroker_server.gateway.kafka.connection.memory_budget import MemoryBudget
from sharebroker_server.kafka_wire.frame_splitter import FrameSplitter

READ_AHEAD: Final = 64 * 1024
"""Bytes of requests that every connection may buffer; further bytes need the shared memory budget."""


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
        """Returns whether the rest of a request has not arrived for `stall_timeout` seconds of our
        reading.
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
