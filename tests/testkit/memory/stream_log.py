"""The stream log in memory, for tests and simulations: the same guarantees, and faults on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum

from typing_extensions import override

from sharebroker_server.stream_log.port import (
    Entry,
    LogFenced,
    LogFull,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
    StreamLog,
)


class Fault(Enum):
    """The failure of the next append."""

    NOT_WRITTEN = "surely not written"
    DONE_UNKNOWN = "written, but reported as unknown"
    LOST_UNKNOWN = "not written, and reported as unknown"
    FENCED = "another owner took the shard"


class FencedMemory:
    """The common part of fenced stores in memory: leases, unavailability (`away`), and faults on demand.

    `full = True` makes appends fail for lack of memory.
    `epoch_of` returns the lease epoch of a resource (`MemoryLeaseStore.epoch_of`); without it the highest
    epoch that was used, or set by `fence`, is the current one.
    """

    def __init__(self, epoch_of: Callable[[str], int] | None = None) -> None:
        self.away = False
        self.full = False
        self._epoch_of = epoch_of
        self._fences: dict[str, int] = {}
        self._faults: deque[Fault] = deque()
        self._open = asyncio.Event()
        self._open.set()

    def fail_next_append(self, fault: Fault) -> None:
        """Queues a fault; each append consumes one."""
        self._faults.append(fault)

    def drop_faults(self) -> None:
        """Removes the faults that no append has consumed."""
        self._faults.clear()

    def hold(self) -> None:
        """Delays appends until `release`, as a slow disk does."""
        self._open.clear()

    def release(self) -> None:
        """Lets delayed appends continue."""
        self._open.set()

    def fence(self, resource: str, epoch: int) -> None:
        """Rejects writes with epochs below `epoch`, as if another owner had claimed the resource."""
        self._fences[resource] = max(epoch, self._fences.get(resource, 0))

    @asynccontextmanager
    async def appending(
        self, resource: str, epoch: int, *, beyond_limit: bool = False
    ) -> AsyncIterator[None]:
        """Wraps the write of one append: permits it, rejects it, or applies a queued fault."""
        await self._open.wait()
        fault = self._faults.popleft() if self._faults else None
        if fault is Fault.NOT_WRITTEN:
            raise LogNotWritten("fault on demand")
        if fault is Fault.FENCED:
            self.fence(resource, epoch + 1)
            raise LogFenced(resource)
        if fault is Fault.LOST_UNKNOWN:
            raise LogOutcomeUnknown("fault on demand")
        self.check_writable(resource, epoch)
        if self.full and not beyond_limit:
            raise LogFull("full on demand")
        yield
        if fault is Fault.DONE_UNKNOWN:
            raise LogOutcomeUnknown("fault on demand")

    def check_writable(self, resource: str, epoch: int) -> None:
        """Raises LogNotWritten, LogFenced."""
        self.check_deletable()
        if self._epoch_of is None:
            current = self._fences[resource] = max(epoch, self._fences.get(resource, 0))
        else:
            current = max(self._epoch_of(resource), self._fences.get(resource, 0))
        if epoch != current:
            raise LogFenced(f"{resource}: epoch {epoch}, the lease has {current}")

    def check_deletable(self) -> None:
        """Raises LogNotWritten."""
        if self.away:
            raise LogNotWritten("unavailable on demand")

    def check_readable(self) -> None:
        """Raises LogUnavailable."""
        if self.away:
            raise LogUnavailable("unavailable on demand")


@dataclass(slots=True)
class _Shard:
    entries: list[Entry] = field(default_factory=list)
    last: int = 0


class MemoryStreamLog(FencedMemory, StreamLog):
    """Logs in memory. `appends` lists (shard, first position, payloads) of every append that was written."""

    def __init__(self, epoch_of: Callable[[str], int] | None = None) -> None:
        super().__init__(epoch_of)
        self.appends: list[tuple[str, int, int]] = []
        self._shards: dict[str, _Shard] = {}

    @override
    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        async with self.appending(shard, epoch):
            self._append(shard, first_position, payloads)

    @override
    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        self.check_readable()
        log = self._shard(shard)
        start = max(0, after - (log.last - len(log.entries)))  # positions are consecutive
        return log.entries[start : start + limit]

    @override
    async def last_position(self, shard: str) -> int:
        self.check_readable()
        return self._shard(shard).last

    @override
    async def trim(self, shard: str, epoch: int, before: int) -> None:
        self.check_writable(shard, epoch)
        log = self._shard(shard)
        log.entries = [entry for entry in log.entries if entry.position >= before]

    @override
    async def delete(self, shard: str) -> None:
        self.check_deletable()
        self._shards.pop(shard, None)

    def _append(self, shard: str, first_position: int, payloads: Sequence[bytes]) -> None:
        log = self._shard(shard)
        if log.last != first_position - 1:
            raise LogOutOfOrder(f"{shard} ends at {log.last}, not at {first_position - 1}")
        log.entries.extend(Entry(first_position + i, bytes(payload)) for i, payload in enumerate(payloads))
        log.last += len(payloads)
        self.appends.append((shard, first_position, len(payloads)))

    def _shard(self, shard: str) -> _Shard:
        return self._shards.setdefault(shard, _Shard())
