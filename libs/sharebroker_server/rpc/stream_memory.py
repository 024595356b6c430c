"""Limits the memory of unfinished messages on the streams of clients.

gRPC stores a message until it is complete and reports nothing about it before. A stream that awaits its
next message looks the same whether nothing or 16 MiB of the message have arrived. Only the memory of the
process shows the difference. While many streams await a message, `StreamMemory` therefore compares the
resident memory with a baseline. If it has grown too much, some of these streams end with a retriable error,
and with them their unfinished messages.

The baseline falls with the memory and rises slowly, so that it follows the ordinary growth of a server. If
the memory is still too large when few streams are left, they are not the cause: the baseline becomes the
present memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Final, NamedTuple, Protocol

import structlog

from sharebroker_server.process_memory import available_memory, resident_memory, trim_memory

_log = structlog.get_logger()

UNWATCHED: Final = 8
"""Streams that may await a message without a comparison; their messages have 136 MiB at most."""

MAX_GROWTH: Final = 384 << 20
"""Bytes by which the memory may grow; at most three eighths of the memory of the process."""

INTERVAL: Final = 0.1
"""Seconds between two comparisons."""

_RISE: Final = 100 << 10
"""Bytes by which the baseline rises per comparison: 1 MiB a second."""

_CALM: Final = 100
"""Comparisons with few streams after which they stop. They seldom begin, since trimming takes up to 30 ms."""

_FREED: Final = 10
"""Comparisons with few streams after which the memory of the others is returned to the system."""

_MANY: Final = 4
"""Streams of a connection that make it the one that ends first."""


class StreamRead(Protocol):
    """A stream of a client that awaits its next message."""

    def end(self) -> None:
        """Ends the stream."""


class Pending(NamedTuple):
    """The connection of a stream that awaits a message, and since when, in seconds."""

    peer: Hashable
    since: float


class Growth:
    """Compares the resident memory with a baseline. Sizes are in bytes."""

    __slots__ = ("_baseline", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._baseline: int | None = None

    def exceeds(self, resident: int) -> bool:
        """Returns whether the memory has grown by more than the limit."""
        if self._baseline is None:
            self._baseline = resident
        self._baseline = min(resident, self._baseline + _RISE)
        return resident - self._baseline > self._limit

    def reset(self) -> None:
        """Makes the memory of the next comparison the baseline."""
        self._baseline = None


class StreamMemory:
    """The streams of clients that await a message. `resident` and `trim` are those of the process.

    `late` returns the bytes of late requests, which have a limit of their own and are not compared.
    """

    __slots__ = ("_calm", "_growth", "_late", "_pending", "_resident", "_timer", "_trim")

    def __init__(
        self,
        limit: int | None = None,
        resident: Callable[[], int] = resident_memory,
        trim: Callable[[], None] = trim_memory,
        late: Callable[[], int] = int,
    ) -> None:
        self._growth = Growth(min(MAX_GROWTH, available_memory() * 3 // 8) if limit is None else limit)
        self._resident = resident
        self._trim = trim
        self._late = late
        self._pending: dict[StreamRead, Pending] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._calm = 0

    def add(self, read: StreamRead, peer: Hashable) -> None:
        """Adds a stream of a connection."""
        self._pending[read] = Pending(peer, monotonic())
        if self._timer is None and len(self._pending) > UNWATCHED:
            self._trim()  # the allocator keeps what earlier streams have freed
            self._growth.reset()
            self._compare()

    def discard(self, read: StreamRead) -> None:
        """Removes a stream whose message has arrived or that has ended."""
        self._pending.pop(read, None)

    def _compare(self) -> None:
        self._timer = None
        self._calm = self._calm + 1 if len(self._pending) <= UNWATCHED else 0
        if self._calm > _CALM:
            return
        if self._calm == _FREED:
            self._trim()
        if self._pending and self._exceeds():
            self._trim()
            if self._exceeds():
                self._end_streams()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._compare)

    def _exceeds(self) -> bool:
        return self._growth.exceeds(self._resident() - self._late())

    def _end_streams(self) -> None:
        if len(self._pending) <= UNWATCHED:
            self._growth.reset()  # they are not the cause
            return
        chosen = victims(self._pending, monotonic())
        _log.warning("unfinished messages use too much memory; ending streams", streams=len(chosen))
        for read in chosen:
            read.end()


def victims(pending: dict[StreamRead, Pending], now: float) -> list[StreamRead]:
    """Returns the streams to end, newest first; `pending` is in the order of time.

    They are half of the streams of the connection with the most, else a quarter of all. Streams that have
    received a message within the last interval are exempt, unless all have.
    """
    newest = list(reversed(pending))
    silent = [read for read in newest if now - pending[read].since >= INTERVAL] or newest
    ((peer, number),) = Counter(pending[read].peer for read in silent).most_common(1)
    if number >= _MANY:
        return [read for read in silent if pending[read].peer == peer][: (number + 1) // 2]
    return silent[: (len(silent) + 3) // 4]
