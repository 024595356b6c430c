"""A Sharebroker process in the simulation: its roles, composed as `serve` composes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sharebroker_protocol import clock
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.broker import roles
from sharebroker_server.broker.access_control import AccessControl
from sharebroker_server.broker.roles import BrokerContext, Storage
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.features import DEAD_LETTERS, SHARE, new_levels
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.kafka_client.settings import upstream_settings
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import FailureDetector
from sharebroker_server.leases.names import Shard
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.default import DefaultPersister, PersisterSettings
from sharebroker_server.persister.port import Begun, Changes
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.routing.router import Peer, Router
from sharebroker_server.rpc.server import Service
from tests.simulation.history import History
from tests.simulation.plan import Plan
from tests.testkit.kafka_partition import KafkaPartition
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.simulator.faults import Faults
from tests.testkit.simulator.kafka import BOOTSTRAP, SimulatedKafkaClient
from tests.testkit.simulator.loop import SimulatedLoop
from tests.testkit.simulator.network import Network
from tests.testkit.simulator.node import Node
from tests.testkit.simulator.store import (
    Connection,
    SimulatedLeaseStore,
    SimulatedRecordStore,
    SimulatedStreamLog,
)

LEASE: Final = 3.0
"""Duration of a lease, in seconds."""

LOCK: Final = 2.0
"""Duration of an acquisition lock, in seconds."""

ATTEMPTS: Final = 5
"""The delivery limit."""

_PERSISTER: Final = PersisterSettings(request_timeout=1.0, longest_backoff=0.5)
"""Short, like leases and locks."""

_HAND_OVER: Final = 10.0
_GRACE: Final = 3.0
_RESTART: Final = 0.5
_FOLLOW: Final = 2.0

RECORD_LOCKS: Final = 10
"""Maximum number of in-flight records of a share-partition: below the configurable minimum, so that it is
reached.
"""

_CONFIGURED: Final = BrokerConfig.of(
    {
        "transaction.state.log.num.partitions": "1",
        "group.share.min.session.timeout.ms": "3000",
        "group.share.session.timeout.ms": "4000",
        "group.share.min.heartbeat.interval.ms": "1000",
        "group.share.heartbeat.interval.ms": "1000",
        "group.share.min.record.lock.duration.ms": str(round(LOCK * 1000)),
        "group.share.record.lock.duration.ms": str(round(LOCK * 1000)),
        "group.share.delivery.count.limit": str(ATTEMPTS),
        "share.coordinator.snapshot.update.records.per.snapshot": "7",
    }
)
CONFIG: Final = replace(_CONFIGURED, group_share_partition_max_record_locks=RECORD_LOCKS)


_UPSTREAM: Final = upstream_settings(None, BOOTSTRAP)
UPSTREAM: Final = replace(_UPSTREAM, properties=replace(_UPSTREAM.properties, metadata_max_age_ms=1000))
"""A cluster with the records of a topic; looks at it are as frequent as other retries."""


def configured(plan: Plan) -> BrokerConfig:
    """Returns a config with as many shards of each coordinator as simulated clients use.

    With a Kafka cluster only dead letter topics may be created here; any name counts as one. Nothing is
    written into its logs, so share state is not in logs either.
    """
    return replace(
        CONFIG,
        offsets_topic_num_partitions=plan.shards,
        share_coordinator_state_topic_num_partitions=plan.shards,
        errors_deadletterqueue_topic_name_prefix=""
        if plan.following
        else CONFIG.errors_deadletterqueue_topic_name_prefix,
        group_share_state_storage="log" if plan.log and not plan.following else "coordinator",
    )


@dataclass(frozen=True, slots=True)
class Stores:
    """The state that outlives every process: stores in memory on the clock of the run."""

    log: MemoryStreamLog
    records: MemoryRecordStore
    leases: MemoryLeaseStore

    @classmethod
    def on(cls, now: Callable[[], float]) -> Stores:
        """Returns empty stores; logs are fenced by the leases."""
        leases = MemoryLeaseStore(now)
        return cls(MemoryStreamLog(leases.epoch_of), MemoryRecordStore(leases.epoch_of), leases)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment that all processes of a run share."""

    loop: SimulatedLoop
    faults: Faults
    network: Network
    stores: Stores
    history: History
    plan: Plan
    kafka: KafkaPartition | None


class WatchedPersister(DefaultPersister):
    """Records each attempt of a state write in the history: the log does not contain the epoch of the
    request.
    """

    def __init__(self, router: Router, settings: PersisterSettings, history: History) -> None:
        super().__init__(router, settings)
        self._history = history

    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
        begun = super().begin(shard, changes)
        if begun is not None:  # decided, and in no log before the next loop iteration
            numbers = [self._history.write_began(key, change) for key, change in changes]
            begun.add_done_callback(partial(self._ended, numbers))
        return begun

    def _ended(self, numbers: list[int], begun: Begun) -> None:
        for number, outcome in zip(numbers, () if begun.exception() else begun.result(), strict=False):
            if not isinstance(outcome, KafkaError):
                self._history.write_ended(number)

    async def _write(self, key: SharePartitionKey, change: StateWrite, peer: Peer[Any]) -> None:
        number = self._history.write_began(key, change)
        await super()._write(key, change, peer)
        self._history.write_ended(number)


class Process:
    """A process at one address, with several lives: `start`, then `kill` or `stop`, then `start` again.

    A process that fails to start is started again, as an orchestrator would.
    """

    def __init__(
        self, around: Surroundings, number: int, roles: frozenset[str], clock: tuple[float, float]
    ) -> None:
        self.address = f"broker-{number}:1"
        self.roles = roles
        self._around = around
        self.number = number
        self._clock = clock
        self._lives = 0
        self.node = Node(self.address, *self._clock)
        self._connection: Connection | None = None
        self._stack = contextlib.AsyncExitStack()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()
        self.catalog: MetadataCache | None = None

    @property
    def alive(self) -> bool:
        """Returns whether it runs."""
        return self._task is not None

    def start(self) -> None:
        """Starts another life."""
        self._around.history.log(f"{self.address} starts")
        self._lives += 1
        self.node = Node(self.address, *self._clock)
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        self._task = self._around.loop.spawn(self.node, self._live(self._lives))

    def kill(self) -> None:
        """Ends at once; messages it has sent stay in flight."""
        self._around.history.log(f"{self.address} is killed")
        self.node.killed = True
        self._stack.pop_all()  # no clean-up runs
        self._around.network.break_off(self.node)
        self._task = None

    async def stop(self) -> None:
        """Ends in good order."""
        task, self._task = self._task, None
        if task is not None:
            self._around.history.log(f"{self.address} stops")
            self._stopping.set()
            await asyncio.wait([task])

    def close(self) -> None:
        """Ends the run: no further message is sent."""
        self._stack.pop_all()
        if self._connection is not None:
            self._connection.closed = True

    async def _live(self, life: int) -> None:
        while not self._stopping.is_set():
            try:
                async with contextlib.AsyncExitStack() as self._stack:
                    await self._serve(life, self._stack)
            except Exception as failure:
                self._around.history.log(f"{self.address} could not start: {failure}")
                await asyncio.sleep(_RESTART)

    async def _serve(self, life: int, stack: contextlib.AsyncExitStack) -> None:
        """Runs a life as services/sharebroker_server/broker/process.py does, from the context on."""
        base = await self._context(life, stack)
        services: list[Service] = []
        for role, start in roles.ORDER.items():
            services += await start(base, stack) if role in self.roles else []
        await self._around.network.serve(self.node, services)
        stack.push_async_callback(self._around.network.stop, self.node, _GRACE)
        stack.push_async_callback(_hand_over, base.holder)
        for drain in base.drains:
            stack.push_async_callback(drain)
        await base.holder.start()
        stack.push_async_callback(base.holder.announce_leaving)
        self.ready.set()
        await self._stopping.wait()

    async def _context(self, life: int, stack: contextlib.AsyncExitStack) -> BrokerContext:
        around, stores = self._around, self._around.stores
        self._connection = connection = Connection(around.loop, around.faults, self.address, around.history)
        log = SimulatedStreamLog(stores.log, connection)
        records = SimulatedRecordStore(stores.records, connection)
        leases = SimulatedLeaseStore(stores.leases, connection)
        member = ClusterMember(f"{self.number}/{life}", self.number, self.roles, self.address)
        config = configured(around.plan)
        features = {SHARE: DEAD_LETTERS} if around.plan.queue is not None else {}
        levels = new_levels(features)
        self.catalog = catalog = MetadataCache(log, config, poll=_FOLLOW, new=levels)
        detector = FailureDetector(leases, LEASE, around.network.refused) if around.plan.searching else None
        holder = LeaseHolder(
            leases,
            member,
            LEASE,
            clock=clock.monotonic,
            failure_detector=detector,
            partitions=catalog.partitions,
        )
        await catalog.start()
        stack.push_async_callback(catalog.stop)
        router = Router(
            holder,
            member.owner,
            group_shards=config.offsets_topic_num_partitions,
            share_shards=config.share_coordinator_state_topic_num_partitions,
            transaction_shards=config.transaction_state_log_num_partitions,
        )
        router.state_in_log = catalog.state_in_log
        stack.push_async_callback(router.close)
        upstream = None
        if around.kafka is not None:
            upstream = SimulatedKafkaClient(around.kafka, around.faults, self.address)
        settings = ServeSettings(
            config=config,
            roles=self.roles,
            features=features,
            upstream=None if upstream is None else UPSTREAM,
        )
        patience = replace(_PERSISTER, call_timeout=around.plan.patience)
        persister = WatchedPersister(router, patience, around.history)
        return BrokerContext(
            settings,
            Storage(Keys(), log, records, leases),
            holder,
            catalog,
            router,
            persister,
            kafka=None,
            access=AccessControl(settings, stack),
            upstream=upstream,
        )


async def _hand_over(holder: LeaseHolder) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_HAND_OVER):
            await holder.stop()
