"""The simulated store executes commands; whether a reply arrives depends on chance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.stream_log.port import LogFenced, LogNotWritten, LogOutcomeUnknown, LogUnavailable
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.simulator.faults import NO_RATES, STORE, CommandOutcome, Faults
from tests.testkit.simulator.loop import SimulatedLoop, run
from tests.testkit.simulator.node import Node
from tests.testkit.simulator.store import Connection, SimulatedStreamLog, run_step

NODE = "node"


class Seen:
    """An observer that stores its calls."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int]] = []
        self.failed: list[CommandOutcome] = []

    def command_fails(self, node: str, command: str, fate: CommandOutcome) -> None:
        self.failed.append(fate)

    def lease_claimed(self, resource: str, epoch: int) -> None:
        raise NotImplementedError

    def records_written(self, shard: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        self.written.append((first, len(payloads)))

    def batches_written(self, partition: str, epoch: int, batches: Sequence[StoredBatch]) -> None:
        raise NotImplementedError


class Fated(Faults):
    """A test sets the outcome of each command."""

    def __init__(self, *fates: CommandOutcome) -> None:
        super().__init__(Random(0), NO_RATES)
        self._fates = list(fates)

    def of_command(self, node: str) -> CommandOutcome:
        return self._fates.pop(0) if self._fates else super().of_command(node)


class Harness:
    """A log over a connection."""

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.memory = MemoryStreamLog()
        self.seen = Seen()
        self.log = SimulatedStreamLog(self.memory, Connection(loop, faults, NODE, self.seen))

    async def length(self) -> int:
        return await self.memory.last_position("s")


def simulate(scenario: Callable[[Harness], Awaitable[None]], *fates: CommandOutcome) -> None:
    loop = SimulatedLoop(Random(0))

    async def main() -> None:
        await scenario(Harness(loop, Fated(*fates)))

    run(loop, main())


def test_commands_are_executed_in_the_order_of_sending() -> None:
    async def scenario(there: Harness) -> None:
        await asyncio.gather(*(there.log.append("s", 1, 1 + n, [b"x"]) for n in range(20)))
        assert there.seen.written == [(1 + n, 1) for n in range(20)]
        assert len(await there.log.read("s", 0, 100)) == 20

    simulate(scenario)


@pytest.mark.parametrize(
    ("fate", "error", "done", "done_later"),
    [
        (CommandOutcome.REFUSED, LogNotWritten, 0, 0),
        (CommandOutcome.LOST, LogOutcomeUnknown, 0, 0),
        (CommandOutcome.REPLY_LOST, LogOutcomeUnknown, 1, 1),
        (CommandOutcome.LATE, LogOutcomeUnknown, 0, 1),
    ],
)
def test_fault_decides_error_and_effect_of_a_command(
    fate: CommandOutcome, error: type[Exception], done: int, done_later: int
) -> None:
    async def scenario(there: Harness) -> None:
        with pytest.raises(error):
            await there.log.append("s", 1, 1, [b"x"])
        await asyncio.sleep(0.1)
        assert await there.length() == done
        await asyncio.sleep(10.0)
        assert await there.length() == done_later
        assert there.seen.failed == [fate]

    simulate(scenario, fate)


def test_append_rejected_by_the_store_fails() -> None:
    async def scenario(there: Harness) -> None:
        await there.log.append("s", 2, 1, [b"x"])
        with pytest.raises(LogFenced):
            await there.log.append("s", 1, 2, [b"x"])
        there.faults.cut(NODE, STORE)
        with pytest.raises(LogUnavailable):
            await there.log.read("s", 0, 1)

    simulate(scenario)


def test_commands_of_a_killed_node_are_executed() -> None:
    async def scenario(there: Harness) -> None:
        node = Node(NODE)
        there.loop.spawn(node, there.log.append("s", 1, 1, [b"x"]))
        await asyncio.sleep(1e-6)
        assert not there.seen.written
        node.killed = True
        await asyncio.sleep(1.0)
        assert await there.length() == 1

    simulate(scenario)


def test_store_step_that_suspends_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="must not wait"):
        run_step(asyncio.sleep(0))
