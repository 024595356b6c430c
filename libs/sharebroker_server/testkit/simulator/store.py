"""The store as a node reaches it: over a connection that loses, delays and breaks, to memory twins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Lease, LeasesUnavailable, Member
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.segments import Segment
from sharebroker_server.record_log.memory import MemoryRecordStore
from sharebroker_server.record_log.port import NO_SNAPSHOTS, Bounds
from sharebroker_server.stream_log.memory import MemoryStreamLog
from sharebroker_server.stream_log.port import Entry, LogNotWritten, LogOutcomeUnknown, LogUnavailable
from sharebroker_server.testkit.simulator.faults import Fate, Faults
from sharebroker_server.testkit.simulator.loop import SimulatedLoop

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]


class Witness(Protocol):
    """Sees what is written, as it is written, and what goes wrong."""

    def command_fails(self, node: str, command: str, fate: Fate) -> None:
        """A node's command that a fault strikes."""

    def lease_claimed(self, resource: str, epoch: int) -> None:
        """A lease was taken, or taken anew."""

    def records_written(self, shard: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        """Records of a shard's log, from position `first` on."""

    def batches_written(self, partition: str, epoch: int, batches: Sequence[StoredBatch]) -> None:
        """Batches of a partition's log."""


class Connection:
    """A node's: commands are executed in the order in which they were sent, each in one step, by the store.

    What a killed node had sent is executed all the same.
    """

    def __init__(self, loop: SimulatedLoop, faults: Faults, node: str, witness: Witness) -> None:
        self.closed = False
        self.witness = witness
        self._loop = loop
        self._faults = faults
        self._node = node
        self._arrived = 0.0
        self._answered = 0.0

    async def ask(self, command: str, work: Work[T], refused: Exception, unknown: Exception) -> T:
        """What `work` gives. Raises `refused` or `unknown` where a fault strikes, and what `work` raises."""
        fate = self._faults.of_command(self._node)
        if self.closed:
            fate = Fate.REFUSED
        answer: asyncio.Future[T] = self._loop.create_future()
        delay = self._faults.delay()
        if fate is not Fate.DONE:
            self.witness.command_fails(self._node, command, fate)
        if fate is Fate.REFUSED:
            self._later(delay, _fail, answer, refused)
            return await answer
        if fate is not Fate.DONE:
            self._later(delay, _fail, answer, unknown)
        if fate is Fate.LATE:
            self._later(delay + 4 * self._faults.delay() + 1.0, self._execute, work, None)
        elif fate is not Fate.LOST:
            arrives = self._arrived = max(self._arrived + 1e-9, self._loop.now + delay)
            heard = answer if fate is Fate.DONE else None
            self._loop.call_outside(arrives, self._execute, work, heard)
        return await answer

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_outside(self._loop.now + delay, callback, *args)

    def _execute(self, work: Work[Any], answer: asyncio.Future[Any] | None) -> None:
        """One atomic step of the store."""
        settle: Callable[[], object]
        try:
            settle = partial(_settle, answer, at_once(work()))
        except Exception as failure:
            settle = partial(_fail, answer, failure)
        if answer is not None:
            self._answered = max(self._answered + 1e-9, self._loop.now + self._faults.delay())
            self._loop.call_outside(self._answered, settle)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the store must not wait within a step")


def _settle(answer: asyncio.Future[Any] | None, result: object) -> None:
    if answer is not None and not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any] | None, failure: Exception) -> None:
    if answer is not None and not answer.done():
        answer.set_exception(failure)
        answer.exception()  # seen: whoever asked may be dead


class SimulatedStreamLog:
    """`StreamLog` over a connection."""

    def __init__(self, log: MemoryStreamLog, connection: Connection) -> None:
        self._log = log
        self._connection = connection

    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        """As the port says."""
        copies = [bytes(payload) for payload in payloads]

        async def work() -> None:
            await self._log.append(shard, epoch, first_position, copies)
            self._connection.witness.records_written(shard, epoch, first_position, copies)

        await _written(self._connection, f"append to {shard}", work)

    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        """As the port says."""
        return await _read(self._connection, "read", lambda: self._log.read(shard, after, limit))

    async def last_position(self, shard: str) -> int:
        """As the port says."""
        return await _read(self._connection, "last_position", lambda: self._log.last_position(shard))

    async def trim(self, shard: str, epoch: int, before: int) -> None:
        """As the port says."""
        await _written(self._connection, "trim", lambda: self._log.trim(shard, epoch, before))

    async def delete(self, shard: str) -> None:
        """As the port says."""
        await _written(self._connection, "delete", lambda: self._log.delete(shard))


class SimulatedRecordStore:
    """`RecordStore` over a connection."""

    def __init__(self, store: MemoryRecordStore, connection: Connection) -> None:
        self._store = store
        self._connection = connection

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
    ) -> None:
        """As the port says."""
        copies = list(batches)

        async def work() -> None:
            await self._store.append(partition, epoch, copies, segments, snapshots)
            self._connection.witness.batches_written(partition, epoch, copies)

        await _written(self._connection, f"append to {partition}", work)

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """As the port says."""
        return await _read(self._connection, "read", lambda: self._store.read(partition, offset, max_bytes))

    async def bounds(self, partition: str) -> Bounds:
        """As the port says."""
        return await _read(self._connection, "bounds", lambda: self._store.bounds(partition))

    async def segments(self, partition: str) -> list[Segment]:
        """As the port says."""
        return await _read(self._connection, "segments", lambda: self._store.segments(partition))

    async def snapshots(self, partition: str) -> dict[str, bytes]:
        """As the port says."""
        return await _read(self._connection, "snapshots", lambda: self._store.snapshots(partition))

    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        """As the port says."""
        await _written(
            self._connection,
            "trim",
            lambda: self._store.trim(partition, epoch, log_start_offset, deleted_snapshots),
        )

    async def partitions(self) -> set[str]:
        """As the port says."""
        return await _read(self._connection, "partitions", self._store.partitions)

    async def delete(self, partition: str) -> None:
        """As the port says."""
        await _written(self._connection, "delete", lambda: self._store.delete(partition))


class SimulatedLeaseStore:
    """`LeaseStore` over a connection."""

    def __init__(self, leases: MemoryLeaseStore, connection: Connection) -> None:
        self._leases = leases
        self._connection = connection

    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        """As the port says."""

        async def work() -> Lease:
            lease = await self._leases.claim(resource, owner, ttl, force=force)
            if lease.owner == owner:
                self._connection.witness.lease_claimed(resource, lease.epoch)
            return lease

        return await self._ask(f"claim {resource}", work)

    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        """As the port says."""
        return await self._ask("renew", lambda: self._leases.renew(epochs, owner, ttl))

    async def release(self, resource: str, owner: str) -> None:
        """As the port says."""
        await self._ask(f"release {resource}", lambda: self._leases.release(resource, owner))

    async def remove(self, resource: str) -> None:
        """As the port says."""
        await self._ask(f"remove {resource}", lambda: self._leases.remove(resource))

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """As the port says."""
        return await self._ask("read", lambda: self._leases.read(resources))

    async def announce(self, member: Member, ttl: float) -> bool:
        """As the port says."""
        return await self._ask("announce", lambda: self._leases.announce(member, ttl))

    async def members(self) -> list[Member]:
        """As the port says."""
        return await self._ask("members", self._leases.members)

    async def silent(self, ttl: float, since: float) -> list[Member]:
        """As the port says."""
        return await self._ask("silent", lambda: self._leases.silent(ttl, since))

    async def depose(self, member: Member, ttl: float, since: float) -> bool:
        """As the port says."""
        return await self._ask("depose", lambda: self._leases.depose(member, ttl, since))

    async def withdraw(self, owner: str) -> None:
        """As the port says."""
        await self._ask("withdraw", lambda: self._leases.withdraw(owner))

    async def generation(self, name: str, digest: str) -> int:
        """As the port says."""
        return await self._ask("generation", lambda: self._leases.generation(name, digest))

    async def _ask(self, command: str, work: Work[T]) -> T:
        away = LeasesUnavailable("by a simulated fault")
        return await self._connection.ask(command, work, away, away)


async def _written(connection: Connection, command: str, work: Work[None]) -> None:
    refused, unknown = LogNotWritten("by a simulated fault"), LogOutcomeUnknown("by a simulated fault")
    await connection.ask(command, work, refused, unknown)


async def _read(connection: Connection, command: str, work: Work[T]) -> T:
    away = LogUnavailable("by a simulated fault")
    return await connection.ask(command, work, away, away)
