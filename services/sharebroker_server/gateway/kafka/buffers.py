"""A connection's buffers of requests and responses, and the bounds on the memory of all connections."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Final, NamedTuple, Protocol

from sharebroker_server.kafka_wire.frames import FrameSplitter

READ_AHEAD: Final = 64 * 1024
"""Bytes of requests that every connection may buffer; further bytes need the shared memory budget."""

FLUSH_SIZE: Final = 64 * 1024
"""Bytes that are sent without waiting for further responses."""


class RequestBuffer:
    """Requests that arrived and are not yet answered. `now` is in seconds of the loop's clock.

    Bytes beyond READ_AHEAD reserve a part of the shared budget from the start of a request until its
    response. Until the reservation is granted, nothing is read from the client. Small requests of one client
    therefore never wait for large requests of others. `disconnect` ends the connection when other clients
    need the memory.
    """

    __slots__ = (
        "_begun_at",
        "_budget",
        "_buffered",
        "_closed",
        "_disconnect",
        "_frames",
        "_paused",
        "_queued",
        "_requested",
        "_reserved",
        "_splitter",
        "_transport",
        "received",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        max_request_bytes: int,
        budget: MemoryBudget,
        disconnect: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._disconnect = disconnect
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
        self.received = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def limit(self, max_request_bytes: int) -> None:
        """Changes the limit of requests that have not begun to arrive."""
        self._splitter.max_bytes = max_request_bytes

    def add(self, data: bytes, now: float) -> None:
        """Adds received bytes. Raises BadMessage; complete requests before the invalid one are kept."""
        frames: list[bytes] = []
        begun = self._splitter.begun
        self.received += len(data)
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

    def unfinished_for(self, now: float) -> float:
        """Returns the seconds for which the last request has been incomplete; 0 if it is complete.

        Time in which reading was paused does not count, because the client cannot complete its request then.
        """
        return now - self._begun_at if self._splitter.begun and not self._paused else 0.0

    def evict(self) -> None:
        """Disconnects the client, because other clients need the memory of its incomplete request."""
        self._disconnect()

    def close(self) -> None:
        """Discards all requests and frees their memory."""
        if self._closed:
            return
        self._closed = True
        self._frames.clear()
        self._splitter.discard()
        if self._requested:
            self._budget.withdraw(self)
        if self._reserved:
            self._budget.release(self._reserved, self)

    def _regulate(self) -> None:
        """Reserves or releases budget for the buffered bytes, and pauses or resumes reading."""
        if self._closed:
            return
        needed = max(self._buffered + self._splitter.size - READ_AHEAD, 0)
        more = needed - self._reserved - self._requested
        if more > 0 and not self._requested:
            if self._budget.reserve(more, self):
                self._reserved += more
            else:
                self._requested = more
        elif more < 0 and self._reserved:
            less = min(-more, self._reserved)
            self._reserved -= less
            self._budget.release(less, self)
        self._pause(self._requested > 0 or self._queued > READ_AHEAD)

    def granted(self) -> None:
        """Reads on: the budget granted the reservation."""
        self._reserved += self._requested
        self._requested = 0
        self._regulate()

    def _pause(self, paused: bool) -> None:
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._begun_at = self._budget.now()
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


class Reserving(Protocol):
    """A connection that reserves memory for large requests. `now` is in seconds of the budget's clock."""

    received: int
    """The number of bytes that have arrived."""

    def granted(self) -> None:
        """Is called once the waiting reservation is granted."""

    def unfinished_for(self, now: float) -> float:
        """Returns for how many seconds its request has been incomplete; 0 if it is complete."""

    def evict(self) -> None:
        """Ends the connection, which releases its memory now or later."""


GRACE: Final = 1.0
"""Seconds in which a client can complete a large request while others wait for memory."""

PROGRESS: Final = 0.25
"""The share of its reservation that a request receives between two checks while it is not evicted."""

TURN: Final = 2.0
"""Seconds after which the oldest waiting reservation is next, and between two such turns."""


class _Waiting(NamedTuple):
    """A reservation that waits. The order is that of sizes, then that of arrival."""

    size: int
    number: int
    since: float
    owner: Reserving


class MemoryBudget:
    """`limit` bytes for large requests.

    While the limit is reached, the smallest waiting reservation is granted first. Once every TURN, the oldest
    reservation that has waited longer than TURN is granted before all others; large requests therefore wait
    for a bounded time. A request larger than the limit is admitted when the budget is unused.

    `relieve` ends connections that hold memory for incomplete requests while others wait. A client that
    announces large requests and does not complete them would otherwise delay all others.
    """

    def __init__(self, limit: int, now: Callable[[], float] = monotonic) -> None:
        self.used = 0
        """Bytes that are reserved."""
        self.now = now
        """The clock, in seconds."""
        self._limit = limit
        self._held: dict[Reserving, int] = {}
        self._by_age: dict[Reserving, _Waiting] = {}
        self._by_size: list[_Waiting] = []
        self._numbers = count()
        self._turn_at = now()
        self._received: dict[Reserving, int] = {}

    @property
    def waiting(self) -> int:
        """The number of reservations that wait."""
        return len(self._by_age)

    def reserve(self, size: int, owner: Reserving) -> bool:
        """Reserves `size` bytes for a connection that has no waiting reservation.

        Returns True if they are available; else calls `owner.granted` once they are.
        """
        if self._fits(size) and self._overdue() is None:
            self._hold(size, owner)
            return True
        waiting = _Waiting(size, next(self._numbers), self.now(), owner)
        self._by_age[owner] = waiting
        insort(self._by_size, waiting)
        return False

    def release(self, size: int, owner: Reserving) -> None:
        """Releases `size` reserved bytes of a connection."""
        self.used -= size
        self._held[owner] -= size
        if not self._held[owner]:
            del self._held[owner]
        self._admit()

    def withdraw(self, owner: Reserving) -> None:
        """Withdraws the waiting reservation of a connection."""
        self._remove(self._by_age[owner])
        self._admit()

    def relieve(self) -> None:
        """Evicts owners of incomplete requests until all waiting reservations will fit.

        Those with the most byte-seconds are evicted first: bytes, times the seconds without completion. A
        request that still arrives is spared: on a busy server it is incomplete because it is read late.
        """
        before, self._received = self._received, {owner: owner.received for owner in self._held}
        if not self._by_age:
            return
        now = self.now()
        needed = sum(waiting.size for waiting in self._by_size)
        unfinished = {
            owner: owner.unfinished_for(now)
            for owner, size in self._held.items()
            if owner in before and owner.received - before[owner] < PROGRESS * size
        }
        victims = sorted(
            (owner for owner, seconds in unfinished.items() if seconds > GRACE),
            key=lambda owner: self._held[owner] * unfinished[owner],
        )
        excess = self.used + needed - self._limit
        while victims and excess > 0:
            victim = victims.pop()
            excess -= self._held.get(victim, 0)
            victim.evict()

    def _fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def _hold(self, size: int, owner: Reserving) -> None:
        self.used += size
        self._held[owner] = self._held.get(owner, 0) + size

    def _overdue(self) -> _Waiting | None:
        """Returns the oldest waiting reservation if it is its turn."""
        oldest = next(iter(self._by_age.values()), None)
        return oldest if oldest and self.now() - max(oldest.since, self._turn_at) > TURN else None

    def _next(self) -> _Waiting:
        return self._overdue() or self._by_size[0]

    def _remove(self, waiting: _Waiting) -> None:
        del self._by_age[waiting.owner]
        del self._by_size[bisect_left(self._by_size, waiting)]

    def _admit(self) -> None:
        while self._by_age and self._fits((waiting := self._next()).size):
            if waiting is self._overdue():
                self._turn_at = self.now()
            self._remove(waiting)
            self._hold(waiting.size, waiting.owner)
            waiting.owner.granted()


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
