"""A node's connection to the store: in-memory stores behind a connection with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from typing_extensions import override

from sharebroker_server.leases.port import ClusterMember, Lease, LeaseStore, LeasesUnavailable
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.port import NO_SNAPSHOTS, Bounds, RecordStore
from sharebroker_server.stream_log.port import (
    Entry,
    LogNotWritten,
    LogOutcomeUnknown,
    LogUnavailable,
    StreamLog,
)
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.simulator.faults import CommandOutcome, Faults
from tests.testkit.simulator.loop import SimulatedLoop

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]


class Witness(Protocol):
    """Observes writes and faults."""

    def command_fails(self, node: str, command: str, fate: CommandOutcome) -> None:
        """A fault affects a node's command."""

    def lease_claimed(self, resource: str, epoch: int) -> None:
        """A lease was claimed."""

    def records_written(self, shard: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        """Records were appended to a shard's log, from position `first` on."""

    def batches_written(self, partition: str, epoch: int, batches: Sequence[StoredBatch]) -> None:
        """Batches were appended to a partition's log."""


class Connection:
    """A node's connection: the store executes commands in order, each in one step.

    Commands of a killed node are executed as well.
    """

    def __init__(self, loop: SimulatedLoop, faults: Faults, node: str, witness: Witness) -> None:
        self.closed = False
        self.witness = witness
        self._loop = loop
        self._faults = faults
        self._node = node
        self._arrived = 0.0
        self._answered = 0.0

    async def call(self, command: str, work: Work[T], refused: Exception, unknown: Exception) -> T:
        """Returns the result of `work`. Raises `refused` or `unknown` for a fault, and the errors
        of `work`.
        """
        fate = self._faults.of_command(self._node)
        if self.closed:
            fate = CommandOutcome.REFUSED
        response: asyncio.Future[T] = self._loop.create_future()
        delay = self._faults.delay()
        if fate is not CommandOutcome.DONE:
            self.witness.command_fails(self._node, command, fate)
        if fate is CommandOutcome.REFUSED:
            self._later(delay, _fail, response, refused)
            return await response
        if fate is not CommandOutcome.DONE:
            self._later(delay, _fail, response, unknown)
        if fate is CommandOutcome.LATE:
            self._later(delay + 4 * self._faults.delay() + 1.0, self._execute, work, None)
        elif fate is not CommandOutcome.LOST:
            arrives = self._arrived = max(self._arrived + 1e-9, self._loop.now + delay)
            reply = response if fate is CommandOutcome.DONE else None
            self._loop.call_outside(arrives, self._execute, work, reply)
        return await response

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_outside(self._loop.now + delay, callback, *args)

    def _execute(self, work: Work[Any], response: asyncio.Future[Any] | None) -> None:
        """Executes one atomic step of the store."""
        resolve: Callable[[], object]
        try:
            resolve = partial(_resolve, response, run_step(work()))
        except Exception as failure:
            resolve = partial(_fail, response, failure)
        if response is not None:
            self._answered = max(self._answered + 1e-9, self._loop.now + self._faults.delay())
            self._loop.call_outside(self._answered, resolve)


def run_step(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that does not suspend."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the store must not wait within a step")


def _resolve(response: asyncio.Future[Any] | None, result: object) -> None:
    if response is not None and not response.done():
        response.set_result(result)


def _fail(response: asyncio.Future[Any] | None, failure: Exception) -> None:
    if response is not None and not response.done():
        response.set_exception(failure)
        response.exception()  # marks it as retrieved: the caller may be dead


class SimulatedStreamLog(StreamLog):
    """`StreamLog` over a connection."""

    def __init__(self, log: MemoryStreamLog, connection: Connection) -> None:
        self._log = log
        self._connection = connection

    @override
    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        copies = [bytes(payload) for payload in payloads]

        async def work() -> None:
            await self._log.append(shard, epoch, first_position, copies)
            self._connection.witness.records_written(shard, epoch, first_position, copies)

        await _write(self._connection, f"append to {shard}", work)

    @override
    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        return await _read(self._connection, "read", lambda: self._log.read(shard, after, limit))

    @override
    async def last_position(self, shard: str) -> int:
        return await _read(self._connection, "last_position", lambda: self._log.last_position(shard))

    @override
    async def trim(self, shard: str, epoch: int, before: int) -> None:
        await _write(self._connection, "trim", lambda: self._log.trim(shard, epoch, before))

    @override
    async def delete(self, shard: str) -> None:
        await _write(self._connection, "delete", lambda: self._log.delete(shard))


class SimulatedRecordStore(RecordStore):
    """`RecordStore` over a connection."""

    def __init__(self, store: MemoryRecordStore, connection: Connection) -> None:
        self._store = store
        self._connection = connection

    @override
    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
        *,
        beyond_limit: bool = False,
    ) -> None:
        copies = list(batches)

        async def work() -> None:
            await self._store.append(partition, epoch, copies, segments, snapshots, beyond_limit=beyond_limit)
            self._connection.witness.batches_written(partition, epoch, copies)

        await _write(self._connection, f"append to {partition}", work)

    @override
    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        return await _read(self._connection, "read", lambda: self._store.read(partition, offset, max_bytes))

    @override
    async def read_at(self, partition: str, offsets: Sequence[int]) -> list[StoredBatch]:
        wanted = list(offsets)
        return await _read(self._connection, "read_at", lambda: self._store.read_at(partition, wanted))

    @override
    async def bounds(self, partition: str) -> Bounds:
        return await _read(self._connection, "bounds", lambda: self._store.bounds(partition))

    @override
    async def segments(self, partition: str) -> list[Segment]:
        return await _read(self._connection, "segments", lambda: self._store.segments(partition))

    @override
    async def snapshots(self, partition: str) -> dict[str, bytes]:
        return await _read(self._connection, "snapshots", lambda: self._store.snapshots(partition))

    @override
    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        await _write(
            self._connection,
            "trim",
            lambda: self._store.trim(partition, epoch, log_start_offset, deleted_snapshots),
        )

    @override
    async def partitions(self) -> set[str]:
        return await _read(self._connection, "partitions", self._store.partitions)

    @override
    async def delete(self, partition: str) -> None:
        await _write(self._connection, "delete", lambda: self._store.delete(partition))


class SimulatedLeaseStore(LeaseStore):
    """`LeaseStore` over a connection."""

    def __init__(self, leases: MemoryLeaseStore, connection: Connection) -> None:
        self._leases = leases
        self._connection = connection

    @override
    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:

        async def work() -> Lease:
            lease = await self._leases.claim(resource, owner, ttl, force=force)
            if lease.owner == owner:
                self._connection.witness.lease_claimed(resource, lease.epoch)
            return lease

        return await self._call(f"claim {resource}", work)

    @override
    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        return await self._call("renew", lambda: self._leases.renew(epochs, owner, ttl))

    @override
    async def release(self, resource: str, owner: str) -> None:
        await self._call(f"release {resource}", lambda: self._leases.release(resource, owner))

    @override
    async def remove(self, resource: str) -> None:
        await self._call(f"remove {resource}", lambda: self._leases.remove(resource))

    @override
    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        return await self._call("read", lambda: self._leases.read(resources))

    @override
    async def announce(self, member: ClusterMember, ttl: float) -> bool:
        return await self._call("announce", lambda: self._leases.announce(member, ttl))

    @override
    async def members(self) -> list[ClusterMember]:
        return await self._call("members", self._leases.members)

    @override
    async def silent(self, ttl: float, since: float) -> list[ClusterMember]:
        return await self._call("silent", lambda: self._leases.silent(ttl, since))

    @override
    async def mark_dead(self, member: ClusterMember, ttl: float, since: float) -> bool:
        return await self._call("mark_dead", lambda: self._leases.mark_dead(member, ttl, since))

    @override
    async def withdraw(self, owner: str) -> None:
        await self._call("withdraw", lambda: self._leases.withdraw(owner))

    @override
    async def generation(self, name: str, digest: str) -> int:
        return await self._call("generation", lambda: self._leases.generation(name, digest))

    async def _call(self, command: str, work: Work[T]) -> T:
        unavailable = LeasesUnavailable("by a simulated fault")
        return await self._connection.call(command, work, unavailable, unavailable)


async def _write(connection: Connection, command: str, work: Work[None]) -> None:
    refused, unknown = LogNotWritten("by a simulated fault"), LogOutcomeUnknown("by a simulated fault")
    await connection.call(command, work, refused, unknown)


async def _read(connection: Connection, command: str, work: Work[T]) -> T:
    unavailable = LogUnavailable("by a simulated fault")
    return await connection.call(command, work, unavailable, unavailable)
