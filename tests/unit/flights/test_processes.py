"""Worker processes and their reports."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from sharebroker_server.flights.cluster import Job
from sharebroker_server.flights.core.flight import FlightAcknowledgement
from sharebroker_server.flights.core.ledger import FlightDelivery, Ledger, delivered
from sharebroker_server.flights.processes import Fleet

REPORT = delivered(1, 2.0, [FlightDelivery(0, 5, 1, FlightAcknowledgement.ACCEPT, "UA", "EWR-IAH", 1, 2)])


class ScriptedFleet(Fleet):
    """A fleet whose workers run a script."""

    script = ""

    async def _spawn(self, name: str) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", self.script, name, stdin=PIPE, stdout=PIPE
        )


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def fleet(ledger: Ledger) -> ScriptedFleet:
    return ScriptedFleet(Job("s", "t", 1, "g", 10), ledger)


def reporting(line: bytes, then: str = "sys.stdin.read()") -> str:
    return f"import sys; sys.stdout.buffer.write({line!r}); sys.stdout.flush(); {then}"


async def test_workers_run_until_their_input_is_closed(fleet: ScriptedFleet, ledger: Ledger) -> None:
    fleet.script = reporting(REPORT)
    await fleet.start(2)
    await fleet.stop()
    assert fleet.failed() == []
    assert len(ledger.deliveries) == 2


async def test_partial_line_of_a_worker_is_ignored(fleet: ScriptedFleet, ledger: Ledger) -> None:
    fleet.script = reporting(REPORT + REPORT[:10])
    await fleet.start(1)
    await fleet.stop()
    assert len(ledger.deliveries) == 1


async def test_records_of_an_ended_worker_are_not_held(fleet: ScriptedFleet, ledger: Ledger) -> None:
    fleet.script = reporting(REPORT)
    await fleet.start(1)
    await fleet.stop()
    assert ledger.holding("worker-1") == 0


async def test_failed_workers_are_named_with_their_exit_code(fleet: ScriptedFleet) -> None:
    fleet.script = "import sys; sys.exit(3 if sys.argv[1] == 'worker-2' else 0)"
    await fleet.start(2)
    await fleet.stop()
    assert fleet.failed() == ["worker-2 ended with exit code 3"]


async def test_suspended_worker_can_be_killed(fleet: ScriptedFleet, ledger: Ledger) -> None:
    fleet.script = reporting(REPORT)
    suspended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def once(worker: str) -> bool:
        suspended.set_result(worker)
        return True

    fleet.freeze_when(once)
    await fleet.start(1)
    await fleet.kill(await suspended)
    assert fleet.failed() == []
    assert ledger.holding("worker-1") == 0
