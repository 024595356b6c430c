"""One run: publish, let the fleet work, lose a worker on the way, and judge what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sharebroker_server.flights.cluster import Cluster
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.core.ledger import Ledger, Place
from sharebroker_server.flights.core.progress import Progress, Rate
from sharebroker_server.flights.core.summary import Summary
from sharebroker_server.flights.core.verdict import Verdict, judge_run
from sharebroker_server.flights.display import Display
from sharebroker_server.flights.fleet import Fleet, Job
from sharebroker_server.flights.publish import Publisher

_TICK: Final = 0.25
_LAG_SECONDS: Final = 1.0
_STALLED_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run goes: who works, and after how many finished records a worker hangs."""

    job: Job
    workers: int
    lock_seconds: int
    loss_after: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    verdict: Verdict
    summary: Summary


class Run:
    """A run over a prepared cluster."""

    def __init__(self, plan: Plan, cluster: Cluster, display: Display) -> None:
        self._plan = plan
        self._cluster = cluster
        self._display = display
        self._ledger = Ledger()
        self._rate = Rate()
        self._lag: int | None = None
        self._hanging = False

    async def run(self, flights: Iterable[Flight]) -> Outcome:
        """Works everything off. Raises KafkaError."""
        before = await self._cluster.finished()
        publisher = Publisher(self._plan.job, await self._cluster.ends())
        fleet = Fleet(self._plan.job, self._ledger)
        await fleet.start(self._plan.workers)
        publishing = asyncio.create_task(publisher.publish(flights))
        losing = asyncio.create_task(self._lose_one(fleet))
        try:
            await self._watch(publisher, publishing, fleet)
            if self._hanging:
                await losing
        finally:
            publishing.cancel()
            losing.cancel()
            await fleet.stop()
            await asyncio.gather(publishing, losing, return_exceptions=True)
        outcome = await self._judge(before)
        self._display.finish(self._progress(publisher.published, time.monotonic()))
        return outcome

    async def _watch(self, publisher: Publisher, publishing: asyncio.Task[None], fleet: Fleet) -> None:
        """Shows the progress until nothing is left to do, or nothing happens any more."""
        looked, moved, finished = float("-inf"), time.monotonic(), -1
        all_published = False
        while not (all_published and self._lag == 0):
            now = time.monotonic()
            if now - looked >= _LAG_SECONDS:
                looked, all_published = now, publishing.done()
                self._lag = await self._cluster.lag()
            self._display.show(self._progress(publisher.published, now), now)
            if finished != len(self._ledger.finals):
                finished, moved = len(self._ledger.finals), now
            if fleet.failed() or now - moved > _STALLED_SECONDS:
                self._display.note(
                    "; ".join(fleet.failed()) or f"Nothing moved for {_STALLED_SECONDS:.0f} s."
                )
                return
            await asyncio.sleep(_TICK)
        publishing.result()

    async def _lose_one(self, fleet: Fleet) -> None:
        """A worker hangs with records in hand until their locks have run out, then it is killed."""
        if self._plan.loss_after <= 0:
            return
        seconds = self._plan.lock_seconds
        frozen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def due(worker: str) -> bool:
            if len(self._ledger.finals) < self._plan.loss_after or not self._ledger.holding(worker):
                return False
            frozen.set_result(worker)
            self._hanging = True
            return True

        fleet.freeze_when(due)
        victim = await frozen
        self._display.note(f"[{victim} hangs with records in hand; their locks run out within {seconds} s]")
        await asyncio.sleep(seconds + 1)
        await fleet.kill(victim)
        self._display.note(f"[{victim} is killed (SIGKILL)]")

    def _progress(self, published: int, now: float) -> Progress:
        totals = self._ledger.totals
        finished = totals.accepted + totals.rejected
        return Progress(
            published=published,
            accepted=totals.accepted,
            released=totals.released,
            rejected=totals.rejected,
            locks_lost=totals.lost,
            lag=self._lag,
            rate=self._rate.note(finished, now),
        )

    async def _judge(self, before: set[Place]) -> Outcome:
        finished = await self._cluster.finished()
        self._ledger.settle(finished, time.monotonic())
        ends = await self._cluster.ends()
        return Outcome(judge_run(ends, before, finished, self._ledger), self._ledger.summary)
