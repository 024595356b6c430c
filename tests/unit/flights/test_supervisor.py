"""A run ends when everything is finished, a worker failed, or it stalls; one worker is lost midway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest

from sharebroker_server.flights import supervisor
from sharebroker_server.flights.cluster import Cluster, Job
from sharebroker_server.flights.core.flight import Flight, FlightAcknowledgement
from sharebroker_server.flights.core.ledger import FlightDelivery, Ledger, RecordId
from sharebroker_server.flights.core.statistics import RunProgress
from sharebroker_server.flights.display import Display
from sharebroker_server.flights.supervisor import FlightsRun, Plan, RunResult

JOB = Job("s", "t", 1, "g", 0)
FLIGHT = Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 11)
BATCH = ("worker-1", 1)


def delivery(offset: int) -> FlightDelivery:
    return FlightDelivery(0, offset, 1, FlightAcknowledgement.ACCEPT, "UA", "EWR-IAH", 1, 2)


class FakeCluster:
    """A log of which `published` records exist, of which `done` are finished."""

    def __init__(self) -> None:
        self.published = 0
        self.done: set[RecordId] = set()

    async def ends(self) -> dict[int, int]:
        return {0: self.published}

    async def lag(self) -> int | None:
        return self.published - len(self.done)

    async def finished(self) -> set[RecordId]:
        return set(self.done)


class FakeDisplay:
    """Stores the shown messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.final: RunProgress | None = None

    def message(self, text: str) -> None:
        self.messages.append(text)

    def show(self, progress: RunProgress, now: float) -> None:
        pass

    def finish(self, progress: RunProgress) -> None:
        self.final = progress


class Harness:
    """A run with scripted workers: `work` is called once they have started."""

    def __init__(self, loss_after: int = 0) -> None:
        self.cluster, self.display = FakeCluster(), FakeDisplay()
        self.plan = Plan(JOB, 2, loss_after)
        self.work: Callable[[Ledger], None] = lambda _: None
        self.failed: list[str] = []
        self.is_due: Callable[[str], bool] | None = None
        self.killed: list[str] = []
        self.stopped = self.unreachable = False

    async def run(self, flights: int = 0) -> RunResult:
        run = FlightsRun(self.plan, cast("Cluster", self.cluster), cast("Display", self.display))
        return await run.run([FLIGHT] * flights)

    def finish(self, ledger: Ledger, *offsets: int) -> None:
        """A worker accepts these records."""
        ledger.delivered(BATCH, 1.0, map(delivery, offsets))
        ledger.confirmed(BATCH, 2.0, {})
        self.cluster.done |= {(0, offset) for offset in offsets}


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    made = Harness()

    class FakeFleet:
        def __init__(self, job: Job, ledger: Ledger) -> None:
            self._ledger = ledger

        async def start(self, workers: int) -> None:
            made.work(self._ledger)

        def freeze_when(self, is_due: Callable[[str], bool]) -> None:
            made.is_due = is_due

        def failed(self) -> list[str]:
            return made.failed

        async def kill(self, name: str) -> None:
            made.killed.append(name)

        async def stop(self) -> None:
            made.stopped = True

    class FakePublisher:
        published = 0

        def __init__(self, *_: Any) -> None:
            pass

        async def publish(self, flights: Iterable[Flight]) -> None:
            if made.unreachable:
                raise ValueError("no broker")
            made.cluster.published += len(list(flights))

    monkeypatch.setattr(supervisor, "Fleet", FakeFleet)
    monkeypatch.setattr(supervisor, "FlightPublisher", FakePublisher)
    monkeypatch.setattr(supervisor, "_TICK", 0.001)
    monkeypatch.setattr(supervisor, "_LAG_SECONDS", 0.0)
    yield made
    assert made.stopped


async def test_run_ends_when_every_published_record_is_finished(harness: Harness) -> None:
    harness.work = lambda ledger: harness.finish(ledger, 0, 1)
    outcome = await harness.run(flights=2)
    assert outcome.verdict.good
    assert (outcome.verdict.published, outcome.verdict.accepted) == (2, 2)
    assert harness.display.final is not None
    assert (harness.display.final.accepted, harness.display.final.lag) == (2, 0)


async def test_records_of_an_earlier_run_are_not_unexplained(harness: Harness) -> None:
    harness.cluster.published, harness.cluster.done = 1, {(0, 0)}
    outcome = await harness.run()
    assert outcome.verdict.good
    assert outcome.verdict.earlier == 1


async def test_failed_worker_ends_the_run(harness: Harness) -> None:
    harness.failed = ["worker-2 ended with exit code 3"]
    harness.cluster.published = 1
    outcome = await harness.run()
    assert not outcome.verdict.good
    assert harness.display.messages == ["worker-2 ended with exit code 3"]


async def test_stalled_run_ends_with_a_message(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_STALLED_SECONDS", 0.05)
    outcome = await harness.run(flights=1)
    assert outcome.verdict.missing == ((0, 0),)
    assert harness.display.messages == ["No progress for 0 s."]


async def test_failure_to_publish_is_raised(harness: Harness) -> None:
    harness.unreachable = True
    with pytest.raises(ValueError, match="no broker"):
        await harness.run(flights=1)


async def test_worker_that_holds_records_is_lost_once_enough_are_finished(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def quick(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", quick)
    harness.plan = Plan(Job("s", "t", 1, "g", 10), 2, loss_after=1)
    ledgers: list[Ledger] = []
    harness.work = ledgers.append
    running = asyncio.create_task(harness.run(flights=2))
    while harness.is_due is None:
        await sleep(0)
    (ledger,) = ledgers
    ledger.delivered(("worker-2", 1), 1.0, [delivery(1)])
    assert not harness.is_due("worker-2")  # too few are finished
    harness.finish(ledger, 0)
    assert not harness.is_due("worker-1")  # it holds no record
    assert harness.is_due("worker-2")
    ledger.died("worker-2")
    harness.finish(ledger, 1)
    await running
    assert harness.killed == ["worker-2"]
    assert 11 in pauses
    assert harness.display.messages == [
        "[worker-2 hangs while it holds records; their locks time out within 10 s]",
        "[worker-2 was killed (SIGKILL)]",
    ]
