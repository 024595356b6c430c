"""The planned faults of processes, of their connections and of the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

from tests.simulation.plan import Fault, Kind, Trap
from tests.simulation.process import Process, Surroundings
from tests.simulation.traps import Traps
from tests.testkit.memory.stream_log import FencedMemory
from tests.testkit.simulator.faults import STORE


class Saboteur:
    """Injects faults; every fault ends automatically."""

    def __init__(self, around: Surroundings, processes: Sequence[Process]) -> None:
        self._around = around
        self._processes = processes

    async def run(self, faults: Iterable[Fault], traps: Iterable[Trap], until: float) -> None:
        """Injects each fault at its time from now on, and those of traps up to a time; when it returns all
        processes run again.

        A fault of a process that is already down is skipped.
        """
        sprung = asyncio.create_task(self._watch(Traps(self._around, traps), until)) if traps else None
        begun, loop, under_way = self._around.loop.now, self._around.loop, []
        for fault in faults:
            await asyncio.sleep(begun + fault.at - loop.now)
            process = self._processes[fault.process % len(self._processes)]
            if process.alive and not process.node.paused:
                under_way.append(asyncio.create_task(self._strike(fault, process)))
        if under_way:
            await asyncio.wait(under_way)
        if sprung is not None:
            await sprung

    async def _watch(self, traps: Traps, until: float) -> None:
        """Injects the faults of traps when they spring."""
        under_way, loop = [], self._around.loop
        while loop.now < until:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - loop.now):
                    fault, resource = await traps.sprung.get()
                    under_way.append(asyncio.create_task(self._strike_leader(fault, resource)))
        traps.close()
        if under_way:
            await asyncio.wait(under_way)

    async def _strike_leader(self, fault: Fault, resource: str) -> None:
        if fault.at:
            await asyncio.sleep(fault.at)
        process = self._leader(resource)
        if process is not None and process.alive and not process.node.paused:
            await self._strike(fault, process)

    def _leader(self, resource: str) -> Process | None:
        """Returns the process that holds a lease, as the store has it."""
        owner = self._around.stores.leases.owner_of(resource)
        named = (each for each in self._processes if owner.startswith(f"{each.number}/"))
        return next(named, None)

    async def _strike(self, fault: Fault, process: Process) -> None:
        match fault.kind:
            case Kind.KILL:
                process.kill()
                await asyncio.sleep(fault.lasts)
                process.start()
            case Kind.RESTART:
                await self._stop(process, fault.patience)
                await asyncio.sleep(fault.lasts / 2)
                process.start()
            case Kind.FREEZE:
                await self._freeze(process, fault.lasts)
            case Kind.CUT_OFF:
                await self._cut_between(process.address, [STORE], fault.lasts)
            case Kind.CUT:
                others = [other.address for other in self._processes if other is not process]
                await self._cut_between(process.address, others, fault.lasts)
            case Kind.FULL:
                stores = self._around.stores
                await self._fill(
                    [stores.records, stores.log] if fault.process % 2 else [stores.records], fault.lasts
                )

    async def _stop(self, process: Process, patience: float) -> None:
        """Stops a process in order; kills it after a timeout, as an orchestrator does."""
        stopping = asyncio.create_task(process.stop())
        await asyncio.wait([stopping], timeout=patience)
        if not stopping.done():
            process.kill()
            stopping.cancel()

    async def _freeze(self, process: Process, lasts: float) -> None:
        node = process.node
        self._around.history.log(f"{process.address} freezes")
        node.paused = True
        await asyncio.sleep(lasts)
        if not node.killed:
            self._around.history.log(f"{process.address} wakes")
            self._around.loop.resume(node)

    async def _cut_between(self, one: str, others: Sequence[str], lasts: float) -> None:
        faults, names = self._around.faults, " and ".join(others)
        self._around.history.log(f"nothing passes between {one} and {names}")
        for other in others:
            faults.cut(one, other)
        await asyncio.sleep(lasts)
        for other in others:
            faults.uncut(one, other)
        self._around.history.log(f"messages pass between {one} and {names} again")

    async def _fill(self, logs: Sequence[FencedMemory], lasts: float) -> None:
        """Rejects writes: to record logs for lack of memory, to everything for lack of disk space."""
        self._around.history.log(f"the store is full{' of records' if len(logs) == 1 else ''}")
        for log in logs:
            log.full = True
        await asyncio.sleep(lasts)
        for log in logs:
            log.full = False
        self._around.history.log("the store has room again")
