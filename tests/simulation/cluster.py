"""One run: a cluster, clients and faults from one seed; then no faults until every record is finished."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, TypeVar
from unittest.mock import patch

import structlog

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.routing.router import GATEWAY
from sharebroker_server.security import audit
from tests.simulation import following
from tests.simulation.accounts import Accounts
from tests.simulation.administrator import Administrator
from tests.simulation.aged import MAX_AGE_MS, AgedProducer
from tests.simulation.breaking import CONFIGS, Resumer
from tests.simulation.clients import (
    LATER,
    MOST_AT_ONCE,
    WAIT_MS,
    Client,
    Consumer,
    Producer,
    StreamConsumer,
)
from tests.simulation.dead_letters import QueueKeeper, short_letters
from tests.simulation.drawing import drawn
from tests.simulation.history import History
from tests.simulation.idempotent import PipeliningProducer
from tests.simulation.jobs import DURABLE_LOCK, JOB_LOCK, LongWorker, StreamWorker
from tests.simulation.plan import MOST_PARTITIONS, Plan, Way
from tests.simulation.process import ATTEMPTS, LEASE, LOCK, RECORD_LOCKS, Process, Stores, Surroundings
from tests.simulation.recreating import GROUP, RETURNS, Recreator, ReturningConsumer
from tests.simulation.redriving import Redriver
from tests.simulation.repeating import WINDOW_MS, RepeatingProducer
from tests.simulation.retrying import Retrier
from tests.simulation.sabotage import Saboteur
from tests.simulation.scheduled import SchedulingProducer
from tests.simulation.sessions import SessionConsumer
from tests.testkit.checker.checker import Checker
from tests.testkit.checker.events import Counted, Ended, Healed, Recovered
from tests.testkit.checker.locks import Limits
from tests.testkit.kafka_partition import KafkaPartition
from tests.testkit.simulator.faults import KEEPALIVE, NO_RATES, Faults
from tests.testkit.simulator.loop import SimulatedLoop, Stuck, run
from tests.testkit.simulator.network import Network
from tests.testkit.simulator.outside import simulated

_Member = TypeVar("_Member", bound=Consumer)

TOPIC: Final = "orders"
PEACE: Final = 40.0
"""Seconds in which every record is to be finished after the last fault."""

LONGEST_CALL: Final = 40.0
"""Seconds within which every call ends, with any outcome: a call of 30 and a closing call of 5 after it."""

SKEW: Final = 0.2
"""Maximum initial offset of clocks, in seconds."""

DRIFT: Final = 0.0025
"""Maximum drift of a clock; a bad quartz is fifty times better."""

_POLL: Final = 0.5
"""Seconds between two calls of a request that queries several leaders: ten times as long as elsewhere."""

_POLLING: Final = patch("sharebroker_server.gateway.share.fetch.POLL_INTERVAL", _POLL)
_DURABLE: Final = patch("sharebroker_server.share_partition_leader.core.locks.DURABLE_LOCK", DURABLE_LOCK)

_NO_FENCING_MS: Final = 45_000
"""A session timeout that is longer than the faults."""

_LONGEST_RUN: Final = 60.0
"""The longest time, in seconds, during which clocks are read."""

LIMITS: Final = Limits(
    lock_duration=LOCK,
    delivery_count=ATTEMPTS,
    record_locks=RECORD_LOCKS,
    # A leader that reloads the state under one epoch loses locks that its clients may still count.
    locks_slack=MOST_AT_ONCE - 1,
    skew=2 * (SKEW + 2 * DRIFT * _LONGEST_RUN),
    # A lock, a lease that has to expire first, and a client's retries in between. A loss that is detected
    # late delays a call by KEEPALIVE.
    soon=2 * LOCK + 2 * LEASE + KEEPALIVE,
    # 100 ms, and a tick: two calls of a request that queries several leaders, and some messages.
    late=0.1 + _POLL + 0.1,
)


_CONSUMERS: Final[dict[Way, type[Consumer]]] = {
    Way.CALLS: Consumer,
    Way.STREAM: StreamConsumer,
    Way.SESSION: SessionConsumer,
}

_WORKERS: Final[dict[Way, type[LongWorker]]] = {Way.CALLS: LongWorker, Way.STREAM: StreamWorker}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run: `failure` is None if every invariant held."""

    seed: int
    failure: BaseException | None
    history: History
    steps: int
    seconds: float

    @property
    def text(self) -> str:
        """Returns the history, one event per line."""
        return self.history.text()


def simulate(seed: int, plan: Plan | None = None) -> Outcome:
    """Runs one seed; the same seed and PYTHONHASHSEED (the order of sets of strings) give the same run.

    The default `plan` is drawn from the seed.
    """
    random = Random(seed)
    loop = SimulatedLoop(random)
    cluster = Cluster(loop, random, plan or drawn(seed))
    history = cluster.around.history
    failure: BaseException | None = None
    audit.windows.clear()  # state of the process; an earlier run must not affect this one
    with simulated(loop, seed, cluster.around.network.dial), _POLLING, _DURABLE, short_letters():
        try:
            run(loop, cluster.run())
        except Stuck as stuck:
            failure = stuck
    return Outcome(seed, history.failure or failure, history, loop.steps, loop.now)


def quiet() -> None:
    """Turns logging off: a failing seed prints its history instead."""
    # Coroutines that had not begun when a run ended.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=True)
    logging.disable(logging.CRITICAL)


class Cluster:
    """Two or three processes, a topic, two groups, a few clients."""

    def __init__(self, loop: SimulatedLoop, random: Random, plan: Plan) -> None:
        self._loop = loop
        self._random = random
        self._plan = plan
        faults = Faults(random, NO_RATES)
        # A durable lock whose response was lost lasts until its deadline.
        limits = replace(LIMITS, soon=LIMITS.soon + JOB_LOCK) if plan.jobs else LIMITS
        if plan.queue is not None:
            limits = replace(limits, delivery_count=plan.queue.attempts, dead_letters=plan.queue.holds)
        history = History(Checker(limits, plan.scale.groups), lambda: loop.now)
        stores = Stores.on(lambda: loop.now)
        partition = KafkaPartition(following.ELSEWHERE) if plan.following else None
        self.around = Surroundings(loop, faults, Network(loop, faults), stores, history, plan, partition)
        self._processes = [self._process(number, roles) for number, roles in enumerate(plan.layout, 1)]
        self._admin = self._client()
        self._resumer = Resumer(self._client(), plan.scale.groups, self._is_paused) if plan.breaking else None
        self._recreator = Recreator(self._client(), self._ids_of_returns) if plan.recreating else None
        self._observed = following.Observed(history)
        self._kafka = None
        if partition is not None:
            history.unjudged.add(following.GROUP)
            self._kafka = following.Kafka(partition, self._client(), self._observed)
        self._keeper = None if plan.queue is None else QueueKeeper(self._admin, plan.queue)
        self._consumers: dict[Consumer, asyncio.Task[None]] = {}
        self._producers: list[Producer] = []

    async def run(self) -> None:
        """Runs all phases, or stops at the first failure; the history has the outcome."""
        history = self.around.history
        phases = asyncio.create_task(self._phases())
        history.on_failure = phases.cancel
        [ended], _ = await asyncio.wait([phases])
        if not ended.cancelled() and (failure := ended.exception()) is not None:
            history.fail(failure)
        self._end()

    async def _phases(self) -> None:
        topic_id = await self._begin()
        await self._inject_faults(topic_id)
        await self._recover(topic_id)
        if self._plan.scale.farewell:
            await self._shut_down()

    async def _begin(self) -> str:
        """Starts the processes; creates the topic and the configs of the groups."""
        for process in self._processes:
            process.start()
        for process in self._processes:
            await process.ready.wait()
        created = await self._admin.admin(
            "CreateTopics",
            cluster.CreateTopicsRequest(
                topics=[
                    cluster.CreateTopicsRequest.Topic(
                        name=TOPIC, num_partitions=self._plan.partitions, configs=self._topic_configs()
                    )
                ]
            ),
        )
        topic_id: str = created.topics[0].topic_id
        self.around.history.topics[topic_id] = TOPIC
        if self._keeper is not None:
            await self._keeper.begin()
        request = cluster.IncrementalAlterConfigsRequest()
        for group in self._plan.scale.groups:
            resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=group)
            resource.configs.add(name="share.auto.offset.reset", value="earliest")
            if self._plan.jobs:  # a member that is fenced loses its durable locks
                resource.configs.add(name="share.session.timeout.ms", value=str(_NO_FENCING_MS))
            if self._plan.aged:
                resource.configs.add(name="share.record.max.age.ms", value=str(MAX_AGE_MS))
            letters = {} if self._plan.queue is None else self._plan.queue.group_configs
            for name, value in {**letters, **(CONFIGS if self._plan.breaking else {})}.items():
                resource.configs.add(name=name, value=value)
        if self._recreator is not None:
            resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=GROUP)
            resource.configs.add(name="share.auto.offset.reset", value="earliest")
        if self._kafka is not None:
            resource = request.resources.add(
                resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=following.GROUP
            )
            for name, value in following.CONFIGS.items():
                resource.configs.add(name=name, value=value)
        await self._admin.admin("IncrementalAlterConfigs", request)
        for process in self._processes:
            assert process.catalog is not None
            await process.catalog.wait_for(self._are_known, KEEPALIVE)
        return topic_id

    def _topic_configs(self) -> dict[str, str]:
        window = {"message.dedup.window.ms": str(WINDOW_MS)} if self._plan.repeating else {}
        return window | ({"delivery.delay.enable": "true"} if self._plan.scheduled else {})

    def _are_known(self, catalog: TopicCatalog) -> bool:
        """Returns whether a process has loaded the groups' start offsets: later would be after a second of
        faults.
        """
        groups = (ConfigResource(ResourceType.GROUP, group) for group in self._plan.scale.groups)
        return all(catalog.configs(group) for group in groups)

    async def _inject_faults(self, topic_id: str) -> None:
        plan, until = self._plan, self._loop.now + self._plan.scale.fault_seconds
        self.around.faults.rates = plan.rates
        self._producers += [Producer(self._client(), name, TOPIC, plan.scale.pace) for name in plan.producers]
        producing = [asyncio.create_task(producer.run(until)) for producer in self._producers]
        for name, group, way in plan.members:
            self._join(_CONSUMERS[way], group, name)
        for name, way in plan.jobs:
            worker = self._join(_WORKERS[way], plan.scale.groups[0], name)
            worker.hesitates = plan.hesitating
        pipelining = [
            PipeliningProducer(self._client(), name, TOPIC, plan.scale.pace).run(until)
            for name in plan.idempotent
        ]
        repeating = [
            RepeatingProducer(self._client(), name, TOPIC, plan.scale.pace).run(until)
            for name in plan.repeating
        ]
        aged = [AgedProducer(self._client(), name, TOPIC, plan.scale.pace).run(until) for name in plan.aged]
        topics = TOPIC, topic_id
        scheduled = [
            SchedulingProducer(self._client(), name, topics, plan.scale.pace).run(until)
            for name in plan.scheduled
        ]
        retrying = [
            Retrier(self._client(), name, plan.retried_group, TOPIC).run(until) for name in plan.retrying
        ]
        redriving = [Redriver(self._client(), plan.retried_group, TOPIC).run(until) for _ in plan.redriving]
        keeping = [self._keeper.run()] if self._keeper is not None else []
        if self._resumer is not None:
            keeping.append(self._resumer.run(until))
        if self._recreator is not None:
            self._start(ReturningConsumer(self._client()))
            keeping.append(self._recreator.run(until))
        if self._kafka is not None:
            keeping.append(self._kafka.run(until))
            for kind, name in ((Consumer, "follower"), (StreamConsumer, "streamer")):
                client = self._client()
                client.history = self._observed
                self._start(kind(client, following.GROUP, following.ELSEWHERE, name, following.TEMPER))
        works = (
            self._grow(),
            self._administer(),
            *pipelining,
            *repeating,
            *aged,
            *scheduled,
            *retrying,
            *redriving,
            *keeping,
        )
        working = [asyncio.create_task(work) for work in works]
        await Saboteur(self.around, self._processes).run(plan.faults.values(), plan.traps.values(), until)
        await asyncio.gather(*producing)
        self.around.faults.heal()
        if self._keeper is not None:
            slowest = max(plan.rates.slowness, plan.rates.again)
            working.append(asyncio.create_task(self._keeper.end(slowest)))
        async with asyncio.timeout(PEACE):
            await asyncio.gather(*working)

    async def _grow(self) -> None:
        """Adds a partition, whose share state has to be initialised during the faults."""
        if self._plan.grow is None:
            return
        await asyncio.sleep(self._plan.grow)
        request = cluster.CreatePartitionsRequest()
        request.topics.add(name=TOPIC, count=MOST_PARTITIONS)
        await self._admin.call(AdminServiceStub, "CreatePartitions", request)

    async def _administer(self) -> None:
        if self._plan.change is not None:
            await Administrator(self._client(), TOPIC, self._plan.change).run(self._send_away)

    def _send_away(self, group: str) -> Callable[[], None]:
        """Stops the members of a group at once; returns a function that starts them again."""
        gone = [consumer for consumer in self._consumers if consumer.group == group]
        for consumer in gone:
            self._consumers.pop(consumer).cancel()

        def have_back() -> None:
            for consumer in gone:
                self._join(type(consumer), group, consumer.member)

        return have_back

    async def _recover(self, topic_id: str) -> None:
        for group in self._plan.scale.groups:
            if all(consumer.group != group for consumer in self._consumers):
                self._join(Consumer, group, "last")
        if self._resumer is not None:
            await self._break(self._resumer)
        for consumer in self._consumers:
            consumer.steady = True
        if self._recreator is not None:
            await self._recreator.finish()
        if self._kafka is not None:
            await self._kafka.finish()
        self.around.history.add(Healed(self._loop.now))
        accounts = Accounts(self.around, self._admin, (TOPIC, topic_id))
        if self._plan.scale.farewell:
            await accounts.look()
        for producer in self._producers:
            await producer.publish(patient=True)
        history, deadline = self.around.history, self._loop.now + PEACE
        if await self._drained(deadline):
            await self._delay()
        if await self._drained(deadline):
            await accounts.take(deadline)
        history.add(Ended(self._loop.now))

    def _ids_of_returns(self) -> list[str]:
        """Returns the ids that processes have for the topic that is created again."""
        catalogs = [process.catalog for process in self._processes if process.catalog is not None]
        topics = [catalog.catalog.topic(RETURNS) for catalog in catalogs]
        return [topic.topic_id for topic in topics if topic is not None]

    def _is_paused(self, group: str) -> bool:
        """Returns whether any process has the group as paused."""
        resource = ConfigResource(ResourceType.GROUP, group)
        catalogs = [process.catalog for process in self._processes if process.catalog is not None]
        return any(each.catalog.configs(resource).get("share.paused") == "true" for each in catalogs)

    async def _break(self, resumer: Resumer) -> None:
        """Shows a circuit breaker, once no request of before the end of the faults can arrive."""
        await asyncio.sleep(max(self._plan.rates.slowness, self._plan.rates.again))
        group = self._plan.retried_group
        members = [consumer for consumer in self._consumers if consumer.group == group]
        producer = self._producers[0] if self._producers else Producer(self._client(), "p9", TOPIC, 1.0)
        await resumer.show(group, members, partial(producer.publish, patient=True))

    async def _drained(self, deadline: float) -> bool:
        """Waits until every published record is finished; returns whether it is, at the deadline at last."""
        checker = self.around.history.checker
        remaining = checker.unfinished()
        while remaining and self._loop.now < deadline:
            await asyncio.sleep(0.1)
            remaining = checker.unfinished()
        return not remaining

    async def _delay(self) -> None:
        """Publishes records that members delay, and then more others than a member may hold."""
        if self._plan.rates.twice:  # the response to a second copy of an Acquire is dropped
            await asyncio.sleep(self._plan.rates.again + WAIT_MS / 1000)
        self.around.history.add(Recovered(self._loop.now))
        for producer in self._producers[:1]:
            await producer.publish(prefix=LATER, patient=True)
            await asyncio.sleep(LIMITS.late)
            await producer.publish(RECORD_LOCKS, patient=True)

    async def _shut_down(self) -> None:
        """Stops clients and processes in order; every remaining task must end by its deadline."""
        for task in self._consumers.values():
            task.cancel()
        await asyncio.wait(self._consumers.values())
        await asyncio.gather(*(process.stop() for process in self._processes))
        await asyncio.sleep(LONGEST_CALL)
        at, history = self._loop.now, self.around.history
        for process in self._processes:
            tasks, timers = self._loop.remaining(process.node)
            history.add(Counted(at, f"tasks of {process.address}", 0, tasks))
            history.add(Counted(at, f"timers of {process.address}", 0, timers))

    def _join(self, kind: type[_Member], group: str, member: str) -> _Member:
        consumer = kind(self._client(), group, TOPIC, member, self._plan.temper)
        self._start(consumer)
        return consumer

    def _start(self, consumer: Consumer) -> None:
        self._consumers[consumer] = asyncio.create_task(consumer.run())

    def _process(self, number: int, roles: frozenset[str]) -> Process:
        skew = self._random.uniform(-SKEW / 2, SKEW / 2)
        return Process(self.around, number, roles, (skew, 1.0 + self._random.uniform(-DRIFT, DRIFT)))

    def _client(self) -> Client:
        gateways = [process.address for process in self._processes if GATEWAY in process.roles]
        return Client(self.around, gateways, self._random)

    def _end(self) -> None:
        """Closes the history, the network and every process."""
        self.around.history.close()
        self.around.network.closed = True
        for process in self._processes:
            process.close()
