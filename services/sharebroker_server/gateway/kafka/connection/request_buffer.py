"""A client's bytes as requests; it is read no further while too much of it is here."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from sharebroker_server.gateway.kafka.connection.memory_budget import Budget
from sharebroker_server.kafka_wire.frame_splitter import Cutter

READ_AHEAD: Final = 64 * 1024
"""Bytes of requests that any connection may have here; beyond, it needs the budget of all."""


class Incoming:
    """Requests that have come and are not done with. `now` is in seconds of the loop's clock.

    What is beyond READ_AHEAD holds its share of the budget from its first bytes until it is answered, and
    until there is room the client is not read: small requests never wait for large ones of others.
    """

    __slots__ = (
        "_asked",
        "_budget",
        "_cutter",
        "_frames",
        "_held",
        "_here",
        "_over",
        "_paused",
        "_queued",
        "_since",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, max_request_bytes: int, budget: Budget) -> None:
        self._transport = transport
        self._budget = budget
        self._cutter = Cutter(max_request_bytes)
        self._frames: deque[bytes] = deque()
        self._queued = 0
        self._here = 0
        self._held = 0
        self._asked = 0
        self._paused = False
        self._over = False
        self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def take(self, data: bytes, now: float) -> None:
        """Bytes have come. Raises BadMessage; requests that came before the bad one are kept."""
        frames: list[bytes] = []
        begun = self._cutter.begun
        try:
            self._cutter.cut(data, frames)
        finally:
            if frames or not begun:
                self._since = now
            self._frames += frames
            size = sum(map(len, frames))
            self._queued += size
            self._here += size
            self._regulate()

    @property
    def empty(self) -> bool:
        """Whether there is not even a part of a request."""
        return not self._frames and not self._cutter.begun

    @property
    def first(self) -> bytes:
        """The request that came first."""
        return self._frames[0]

    def next(self) -> bytes:
        """Take it out."""
        frame = self._frames.popleft()
        self._queued -= len(frame)
        return frame

    def done(self, size: int) -> None:
        """Requests of this size need no room any more."""
        self._here -= size
        self._regulate()

    def late(self, now: float, patience: float) -> bool:
        """Whether a request began and its rest has not come for `patience` seconds of our reading."""
        if self._paused:
            self._since = now
        return self._cutter.begun and now - self._since > patience

    def end(self) -> None:
        """Nothing of it is wanted any more."""
        if self._over:
            return
        self._over = True
        self._frames.clear()
        if self._asked:
            self._budget.withdraw(self._asked, self._granted)
        self._budget.give(self._held)

    def _regulate(self) -> None:
        if self._over:
            return
        more = max(self._here + self._cutter.size - READ_AHEAD, 0) - self._held - self._asked
        if more > 0 and not self._asked:
            if self._budget.take(more, self._granted):
                self._held += more
            else:
                self._asked = more
        elif more < 0 and self._held:
            less = min(-more, self._held)
            self._held -= less
            self._budget.give(less)
        self._pause(self._asked > 0 or self._queued > READ_AHEAD)

    def _granted(self) -> None:
        self._held += self._asked
        self._asked = 0
        self._regulate()

    def _pause(self, paused: bool) -> None:
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
