"""One run: publishes, lets the fleet work, stops one worker midway, and verifies the result."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharebroker_server.flights.cluster import Cluster, FlightPublisher, Job
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.core.ledger import Ledger, RecordId, RunVerdict, judge_run
from sharebroker_server.flights.core.statistics import Rate, RunProgress, RunSummary
from sharebroker_server.flights.display import Display
from sharebroker_server.flights.processes import Fleet
from sharebroker_server.flights.upstream import UpstreamPublisher

_TICK: Final = 0.25
_LAG_SECONDS: Final = 1.0
_STALLED_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; a worker hangs after `loss_after` finished records."""

    job: Job
    workers: int
    loss_after: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    verdict: RunVerdict
    summary: RunSummary

    def add_earlier(self, file: Path) -> None:
        """Adds the summary of earlier runs if it covers all records they finished; stores the sum."""
        if file.exists() and self.verdict.earlier:
            earlier = RunSummary.of_dict(json.loads(file.read_text()))
            if earlier.finished == self.verdict.earlier:
                self.summary.add(earlier)
        file.write_text(json.dumps(self.summary.to_dict()))


class FlightsRun:
    """A run on a prepared cluster."""

    def __init__(self, plan: Plan, cluster: Cluster, display: Display) -> None:
        self._plan = plan
        self._cluster = cluster
        self._display = display
        self._ledger = Ledger()
        self._rate = Rate()
        self._lag: int | None = None
        self._hanging = False

    async def run(self, flights: Iterable[Flight]) -> RunResult:
        """Processes all flights. Raises KafkaError."""
        job = self._plan.job
        before = await self._cluster.finished()
        kind = UpstreamPublisher if job.upstream else FlightPublisher
        publisher = kind(job.upstream or job.server, job.topic, await self._cluster.ends())
        fleet = Fleet(job, self._ledger)
        await fleet.start(self._plan.workers)
        publishing = asyncio.create_task(publisher.publish(flights))
        failing = asyncio.create_task(self._fail_one(fleet))
        try:
            await self._show_progress(publisher, publishing, fleet)
            if self._hanging:
                await failing
        finally:
            publishing.cancel()
            failing.cancel()
            await fleet.stop()
            await asyncio.gather(publishing, failing, return_exceptions=True)
        outcome = await self._judge(before)
        self._display.finish(self._progress(publisher.published, time.monotonic()))
        return outcome

    async def _show_progress(
        self, publisher: FlightPublisher, publishing: asyncio.Task[None], fleet: Fleet
    ) -> None:
        """Shows the progress until everything is finished, a worker failed, or progress stalled."""
        checked_at, progressed_at, finished = float("-inf"), time.monotonic(), -1
        all_published = False
        while not (all_published and self._lag == 0):
            now = time.monotonic()
            if now - checked_at >= _LAG_SECONDS:
                checked_at, all_published = now, publishing.done()
                self._lag = await self._cluster.lag()
            self._display.show(self._progress(publisher.published, now), now)
            if finished != len(self._ledger.finals):
                finished, progressed_at = len(self._ledger.finals), now
            if fleet.failed() or now - progressed_at > _STALLED_SECONDS:
                self._display.message(
                    "; ".join(fleet.failed()) or f"No progress for {_STALLED_SECONDS:.0f} s."
                )
                return
            await asyncio.sleep(_TICK)
        publishing.result()

    async def _fail_one(self, fleet: Fleet) -> None:
        """Suspends a worker that holds records until their locks time out, then kills it."""
        if self._plan.loss_after <= 0:
            return
        seconds = self._plan.job.lock_seconds
        frozen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def is_due(worker: str) -> bool:
            if len(self._ledger.finals) < self._plan.loss_after or not self._ledger.holding(worker):
                return False
            frozen.set_result(worker)
            self._hanging = True
            return True

        fleet.freeze_when(is_due)
        victim = await frozen
        self._display.message(
            f"[{victim} hangs while it holds records; their locks time out within {seconds} s]"
        )
        await asyncio.sleep(seconds + 1)
        await fleet.kill(victim)
        self._display.message(f"[{victim} was killed (SIGKILL)]")

    def _progress(self, published: int, now: float) -> RunProgress:
        totals = self._ledger.totals
        finished = totals.accepted + totals.rejected
        counts = (published, totals.accepted, totals.released, totals.rejected, totals.lost)
        return RunProgress(*counts, lag=self._lag, rate=self._rate.sample(finished, now))

    async def _judge(self, before: set[RecordId]) -> RunResult:
        finished = await self._cluster.finished()
        self._ledger.resolve_orphans(finished, time.monotonic())
        ends = await self._cluster.ends()
        return RunResult(judge_run(ends, before, finished, self._ledger), self._ledger.summary)
