"""One run: a deployment under load, faults one after another, then no faults until every record is
finished.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from random import Random
from typing import Final, Generic, TypeVar

import grpc

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from tests.chaos.accounts import accounts, lags, logs_read
from tests.chaos.actors import Actors, Size
from tests.chaos.clients import GRPC
from tests.chaos.deployment import ATTEMPTS, LOCK
from tests.chaos.history import History
from tests.chaos.kafka_clients import KAFKA
from tests.chaos.logs import LogReader
from tests.chaos.ports import Deployed, Event
from tests.chaos.report import FaultResult, Outcome
from tests.support.client import TIMEOUT, Client, connected
from tests.support.kafka_topics import create_topic_at, log_ends
from tests.testkit.checker.events import Healed
from tests.testkit.checker.locks import Limits
from tests.testkit.waiting import eventually

PATIENCE: Final = 60.0
"""Seconds in which work has to continue after a fault, and in which every record has to be finished at
the end.
"""

_FLOWS: Final = 1.0
_WATCH: Final = 4.0
"""Seconds for which a fault is observed at least, since work may stop later than the fault begins."""

_CALM: Final = 2.0
_GROUPS: Final = (GRPC, KAFKA)

D = TypeVar("D", bound=Deployed)


def limits(lease: float, *, journal: bool = True) -> Limits:
    """Returns the configured limits of the groups, and whether failed records are listed."""
    return Limits(
        lock_duration=LOCK,
        delivery_count=ATTEMPTS,
        skew=0.5,
        # A lock, a lease that has to expire, and a client's retries in between.
        soon=2 * LOCK + 2 * lease + 15.0,
        journal=journal,
    )


class Chaos(Generic[D]):
    """Runs the faults; `lease` in seconds; `log` receives the progress; `journal`: as in `limits`."""

    def __init__(
        self, deployment: D, lease: float, random: Random, log: Callable[[str], None], *, journal: bool = True
    ) -> None:
        self._deployment = deployment
        self._lease = lease
        self._limits = limits(lease, journal=journal)
        self._random = random
        self._log = log
        self._history = History()

    async def run(self, faults: Iterable[Event[D]], seconds: float, size: Size) -> Outcome:
        """Injects faults for this many seconds, or until all are done; failures are part of the outcome."""
        history = self._history
        outcome = Outcome(history, str(size), lease=self._lease)
        async with connected(self._deployment.address()) as client:
            topic = await _topic(client, self._deployment.upstream, size.partitions)
            reader = LogReader(history, self._deployment, topic, size.partitions)
            actors = Actors(history, self._deployment, topic[0], size, self._random)
            async with self._reading(reader):
                try:
                    async with actors.working():
                        await self._trouble(faults, seconds, outcome)
                        await self._without_faults(client, topic, actors, reader)
                except AssertionError as failure:
                    outcome.failure = str(failure)
                    self._log(outcome.failure)
        outcome.sent, outcome.failed = actors.sent, actors.failed
        self._log("judging")
        outcome.violation = await asyncio.to_thread(history.judged, self._limits, _GROUPS)
        if outcome.violation is not None:
            outcome.violation_events = history.events_of(outcome.violation, self._limits)
        return outcome

    async def _trouble(self, faults: Iterable[Event[D]], seconds: float, outcome: Outcome) -> None:
        history = self._history
        await self._until_work_continues(history.now(), "the beginning")
        begun = history.now()
        for fault in faults:
            calm = history.now()
            await asyncio.sleep(_CALM)
            outcome.quiet.append(max(history.sequences.pauses(calm, history.now()).values()))
            outcome.struck.append(await self._strike(fault))
            if history.now() - begun > seconds:
                return

    async def _strike(self, fault: Event[D]) -> FaultResult:
        """Injects a fault; heals it when work has continued; waits until work continues again."""
        history, at = self._history, self._history.now()
        self._log(f"{fault} ...")
        await fault.strike(self._deployment)
        await asyncio.sleep(max(_WATCH, fault.lasts(self._lease)) - (history.now() - at))
        if not fault.outlasts_work:
            await self._until_work_continues(history.now(), str(fault))
        healed = history.now()
        await fault.heal(self._deployment)
        await asyncio.sleep(_WATCH / 2)
        await self._until_work_continues(history.now(), f"{fault}, healed")
        pauses = history.sequences.pauses(at, history.now() if fault.outlasts_work else healed)
        if fault.stalls:
            history.stalls.append((at, history.now()))
        back = max(history.sequences.pauses(healed, history.now()).values())
        struck = FaultResult(str(fault), f"{fault.kind} {fault.role}".strip(), at, pauses, back)
        self._log(str(struck))
        return struck

    async def _until_work_continues(self, since: float, after: str) -> None:
        """Waits until every sequence has progressed after a time, and recently."""
        history = self._history

        def moves() -> bool:
            return not history.sequences.idle(max(since, history.now() - _FLOWS))

        try:
            await eventually(moves, PATIENCE)
        except AssertionError:
            idle = ", ".join(
                f"{sequence.actor} {sequence.partition}" for sequence in history.sequences.idle(since)
            )
            raise AssertionError(f"work did not continue after {after}: {idle}") from None

    async def _without_faults(
        self, client: Client, topic: tuple[str, str], actors: Actors, reader: LogReader
    ) -> None:
        """Injects no more faults and delays nothing; returns when every published record is finished."""
        history = self._history
        self._log("no more faults; waiting until every record is finished")
        actors.accept_at_once()
        history.events.append(Healed(history.now()))
        await actors.stop_publishing()

        unfinished: list[str] = []

        async def finished() -> bool:
            try:
                parts = await lags(client, _GROUPS)
            except grpc.aio.AioRpcError as error:
                unfinished[:] = [f"the offsets of the groups: {error.code().name}"]
                return False
            unfinished[:] = [
                f"{group} {part.partition} (start offset {part.start_offset}, lag {part.lag}, "
                f"error {part.error_code})"
                for group, part in parts
                if part.error_code or part.lag
            ]
            return not unfinished

        try:
            await eventually(finished, PATIENCE)
        except AssertionError:  # the checker describes best what is missing
            self._log(f"not finished after {PATIENCE:.0f} s: {', '.join(unfinished)}")
            return
        with contextlib.suppress(AssertionError):
            await reader.read()
            upstream = self._deployment.upstream
            ends = await asyncio.to_thread(log_ends, upstream, topic[0]) if upstream else reader.ends
            history.accounts = await accounts(client, topic, _GROUPS, ends, history.now())
            history.accounts += await logs_read(self._deployment.address(), topic[0], _GROUPS, history.now())

    @contextlib.asynccontextmanager
    async def _reading(self, reader: LogReader) -> AsyncIterator[None]:
        task = asyncio.create_task(reader.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await reader.close()


async def _topic(client: Client, upstream: str, partitions: int) -> tuple[str, str]:
    """Creates a topic, in the Kafka cluster `upstream` if it is given, and groups that read it from its
    start; returns its name and id.
    """
    made = _upstream_topic(client, upstream, partitions) if upstream else client.create(partitions)
    topic = await made
    request = cluster.IncrementalAlterConfigsRequest()
    for group in _GROUPS:
        resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=group)
        resource.configs.add(name="share.auto.offset.reset", value="earliest")
    await client.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
    return topic


async def _upstream_topic(client: Client, upstream: str, partitions: int) -> tuple[str, str]:
    name = await asyncio.to_thread(create_topic_at, upstream, partitions)
    return name, await client.known(name)
