"""One run: a deployment at work, faults one after another, then peace until every record is finished."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from random import Random
from typing import Final, Generic, TypeVar

import grpc

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from tests.chaos.accounts import accounts, lags, logs_read
from tests.chaos.clients import GRPC
from tests.chaos.crowd import Crowd, Size
from tests.chaos.deployment import ATTEMPTS, LOCK
from tests.chaos.history import History
from tests.chaos.kafka_clients import KAFKA
from tests.chaos.logs import LogReader
from tests.chaos.ports import Deployed, Event
from tests.chaos.report import Outcome, Struck
from tests.support.client import TIMEOUT, Client, connected
from tests.testkit.checker.events import Healed
from tests.testkit.checker.locks import Limits
from tests.testkit.waiting import eventually

PATIENCE: Final = 60.0
"""Seconds in which work has to go on after a fault, and every record to be finished in the end."""

_FLOWS: Final = 1.0
_WATCH: Final = 4.0
"""Seconds for which a fault is watched at least, as work may stop later than it struck."""

_CALM: Final = 2.0
_GROUPS: Final = (GRPC, KAFKA)

D = TypeVar("D", bound=Deployed)


def limits(lease: float) -> Limits:
    """What the groups are configured to."""
    return Limits(
        lock_duration=LOCK,
        delivery_count=ATTEMPTS,
        skew=0.5,
        # A lock, a lease that has to run out, and the tries of a client in between.
        soon=2 * LOCK + 2 * lease + 15.0,
    )


class Chaos(Generic[D]):
    """Runs it; `lease` in seconds; `tell` says how it goes."""

    def __init__(self, deployment: D, lease: float, random: Random, tell: Callable[[str], None]) -> None:
        self._deployment = deployment
        self._lease = lease
        self._random = random
        self._tell = tell
        self._history = History()

    async def run(self, faults: Iterable[Event[D]], seconds: float, size: Size) -> Outcome:
        """Faults for so many seconds, or until there are no more; what goes wrong is in the outcome."""
        history = self._history
        outcome = Outcome(history, str(size), lease=self._lease)
        async with connected(self._deployment.address()) as client:
            topic = await _topic(client, size.partitions)
            reader = LogReader(history, self._deployment, topic, size.partitions)
            crowd = Crowd(history, self._deployment, topic[0], size, self._random)
            async with self._reading(reader):
                try:
                    async with crowd.working():
                        await self._trouble(faults, seconds, outcome)
                        await self._peace(client, topic, crowd, reader)
                except AssertionError as failure:
                    outcome.trouble = str(failure)
                    self._tell(outcome.trouble)
        outcome.sent, outcome.failed = crowd.sent, crowd.failed
        self._tell("judging")
        outcome.violation = await asyncio.to_thread(history.judged, limits(self._lease), _GROUPS)
        if outcome.violation is not None:
            outcome.story = history.story(outcome.violation, limits(self._lease))
        return outcome

    async def _trouble(self, faults: Iterable[Event[D]], seconds: float, outcome: Outcome) -> None:
        history = self._history
        await self._until_work_goes_on(history.now(), "the beginning")
        begun = history.now()
        for fault in faults:
            calm = history.now()
            await asyncio.sleep(_CALM)
            outcome.quiet.append(max(history.lanes.pauses(calm, history.now()).values()))
            outcome.struck.append(await self._strike(fault))
            if history.now() - begun > seconds:
                return

    async def _strike(self, fault: Event[D]) -> Struck:
        """Let a fault happen; when work has gone on, put it right, and see work go on again."""
        history, at = self._history, self._history.now()
        self._tell(f"{fault} ...")
        await fault.strike(self._deployment)
        await asyncio.sleep(max(_WATCH, fault.lasts(self._lease)) - (history.now() - at))
        if not fault.outlasts_work:
            await self._until_work_goes_on(history.now(), str(fault))
        healed = history.now()
        await fault.heal(self._deployment)
        await asyncio.sleep(_WATCH / 2)
        await self._until_work_goes_on(history.now(), f"{fault}, put right")
        pauses = history.lanes.pauses(at, history.now() if fault.outlasts_work else healed)
        if fault.stalls:
            history.stalls.append((at, history.now()))
        back = max(history.lanes.pauses(healed, history.now()).values())
        struck = Struck(str(fault), f"{fault.kind} {fault.role}".strip(), at, pauses, back)
        self._tell(str(struck))
        return struck

    async def _until_work_goes_on(self, since: float, after: str) -> None:
        """Every lane has moved since a time, and lately."""
        history = self._history

        def moves() -> bool:
            return not history.lanes.idle(max(since, history.now() - _FLOWS))

        try:
            await eventually(moves, PATIENCE)
        except AssertionError:
            idle = ", ".join(f"{lane.who} {lane.partition}" for lane in history.lanes.idle(since))
            raise AssertionError(f"work did not go on after {after}: {idle}") from None

    async def _peace(self, client: Client, topic: tuple[str, str], crowd: Crowd, reader: LogReader) -> None:
        """No more faults, nothing held back; returns when every published record is finished."""
        history = self._history
        self._tell("no more faults; waiting until every record is finished")
        crowd.calm_down()
        history.events.append(Healed(history.now()))
        await crowd.publish_no_more()

        async def finished() -> bool:
            try:
                return not any(part.error_code or part.lag for _, part in await lags(client, _GROUPS))
            except grpc.aio.AioRpcError:
                return False

        with contextlib.suppress(AssertionError):  # what is missing, the checker knows best
            await eventually(finished, PATIENCE)
            await reader.read()
            history.accounts = await accounts(client, topic, _GROUPS, reader.ends, history.now())
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


async def _topic(client: Client, partitions: int) -> tuple[str, str]:
    """A new topic, and groups that read it from its beginning; its name and id."""
    topic = await client.create(partitions)
    request = cluster.IncrementalAlterConfigsRequest()
    for group in _GROUPS:
        resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=group)
        resource.configs.add(name="share.auto.offset.reset", value="earliest")
    await client.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
    return topic
