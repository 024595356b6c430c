"""A process with the group coordinator's role on stores in memory, beside fakes of the other services."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, StateWrite, TopicIdPartition
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.clients.log_ends import Ends as FoundEnds
from sharebroker_server.group_coordinator.clients.log_ends import LogEnd, Starts
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.service.catalog import CatalogServicer
from sharebroker_server.group_coordinator.service.servicer import GroupCoordinator
from sharebroker_server.group_coordinator.service.shards import make_catalog_host, make_host
from sharebroker_server.group_coordinator.service.share_groups import Ports
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.names import Shard
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.port import Changes, SharePartitionState, StateSummary
from sharebroker_server.routing.transaction_check import Claim
from sharebroker_server.rpc.stubs import LocalContext
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import MemoryStreamLog

CONTEXT = LocalContext()
MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
R = TypeVar("R")


class Coded(Protocol):
    """A message with an error in band."""

    @property
    def error_code(self) -> int: ...


def code(message: Coded) -> ErrorCode:
    return ErrorCode(message.error_code)


class ShareStateTable:
    """A fake share coordinator: `refuse` has the errors, all calls wait while `open` is not set."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, StateSummary] = {}
        self.refuse: dict[SharePartitionKey, KafkaError] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.calls: list[tuple[str, SharePartitionKey]] = []

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        await self._enter("initialize", key)
        fresh = StateSummary(state_epoch, 0, start_offset, -1 if start_offset < 0 else 0)
        known = self.states.get(key) if since_epoch is not None else None
        self.states[key] = fresh if known is None else known._replace(state_epoch=state_epoch)

    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        await self._enter("delete", key)
        if key in self.states and self.states[key].state_epoch > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.states.pop(key, None)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        await self._enter("read_summary", key)
        return self.states.get(key, StateSummary(0, 0, -1, -1))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        raise NotImplementedError

    def shard(self, key: SharePartitionKey) -> int:
        raise NotImplementedError

    def begin(self, shard: Shard, changes: Changes) -> None:
        raise NotImplementedError

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        raise NotImplementedError

    async def _enter(self, call: str, key: SharePartitionKey) -> None:
        self.calls.append((call, key))
        await self.open.wait()
        if key in self.refuse:
            raise self.refuse[key]


class Ends:
    """A fake of the leaders."""

    def __init__(self) -> None:
        self.timestamp = 0
        self.ends: dict[TopicIdPartition, int | KafkaError] = {}
        self.locked: dict[tuple[str, TopicIdPartition], int] = {}
        self.scheduled: dict[TopicIdPartition, int] = {}

    async def of(self, group_id: str, partitions: Mapping[TopicIdPartition, int]) -> FoundEnds:
        ends = {some: self.ends[some] for some in partitions}
        return {
            some: LogEnd(
                end, self.timestamp, self.locked.get((group_id, some), 0), self.scheduled.get(some, 0)
            )
            if isinstance(end, int)
            else end
            for some, end in ends.items()
        }

    async def starts(self, partitions: Collection[TopicIdPartition]) -> Starts:
        return dict.fromkeys(partitions, 0)


class Transactions:
    """A fake transaction coordinator, of epoch 7; `outcomes` are its first replies.

    Calls wait until `open` is set.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[Claim, int, int, str]] = []
        self.outcomes: list[int | KafkaError] = []
        self.open = asyncio.Event()
        self.open.set()

    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        self.requests.append((claim, producer_id, producer_epoch, partition))
        await self.open.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else 7
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


class Cluster:
    """The brokers and the stores they share."""

    def __init__(self) -> None:
        self.leases = MemoryLeaseStore()
        self.log = MemoryStreamLog(self.leases.epoch_of)
        self.states = ShareStateTable()
        self.ends = Ends()
        self.transactions = Transactions()
        self.processes: list[Broker] = []

    async def start(self, node: int, *settings: str, **config: float) -> Broker:
        process = Broker(self, node, BrokerConfig.parse([f"node.id={node}", *settings]), config)
        await process.start()
        self.processes.append(process)
        return process

    async def close(self) -> None:
        self.states.open.set()
        for process in self.processes:
            process.holder.membership.leaving = True  # all stop: no peer has to read a leave notice
            await process.stop()


class Broker:
    """One process; `departed` are members whose records leaders may free."""

    def __init__(self, cluster: Cluster, node: int, broker: BrokerConfig, config: dict[str, float]) -> None:
        self.cluster = cluster
        self.departed: list[tuple[str, str]] = []
        self.follower = MetadataCache(cluster.log, broker, poll=0.005)
        settings = replace(GroupCoordinatorConfig.of(broker), **config)  # type: ignore[arg-type]  # times
        member = ClusterMember(f"{node}/1", node, frozenset({"group-coordinator"}), "")
        self.holder = LeaseHolder(cluster.leases, member)
        self.host = make_host(cluster.log, settings, self.follower)
        self.catalog_host = make_catalog_host(cluster.log, settings, self.follower)
        self.catalog = CatalogServicer(self.catalog_host, settings.cluster_id, self.follower)
        self.groups = GroupCoordinator(
            self.host,
            settings,
            Ports(
                self.follower,
                cluster.states,
                cluster.ends,
                self._depart,
                self._changed,
                cluster.transactions,
            ),
        )

    async def start(self) -> None:
        await self.follower.start()
        await self.host.start(self.holder, self.groups.perform)
        await self.catalog_host.start(self.holder)
        await self.holder.start()

    async def stop(self) -> None:
        await self.groups.close()
        await self.holder.stop()
        await self.host.stop()
        await self.catalog_host.stop()
        await self.follower.stop()

    async def create(self, name: str, partitions: int) -> str:
        """Creates a topic; returns its id once this process has it."""
        request = cluster_pb2.CreateTopicsRequest()
        request.topics.add(name=name, num_partitions=partitions)
        (topic,) = (await self.until(lambda: self.catalog.CreateTopics(request, CONTEXT))).topics
        assert not topic.error_code, topic.error_message
        await self.follower.wait_for(lambda catalog: catalog.topic(name) is not None, 5)
        return topic.topic_id

    async def delete(self, name: str) -> None:
        """Deletes a topic; returns once this process has removed it."""
        request = cluster_pb2.DeleteTopicsRequest()
        request.topics.add(name=name)
        await self.catalog.DeleteTopics(request, CONTEXT)
        await self.follower.wait_for(lambda catalog: catalog.topic(name) is None, 5)

    async def beat(
        self, member: str, epoch: int, *topics: str, group: str = "g"
    ) -> pb.ShareGroupHeartbeatResponse:
        names = pb.TopicNames(names=topics) if topics else None
        request = pb.ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=names,
            client_id="c",
            client_host="h",
        )
        return await self.until(lambda: self.groups.ShareGroupHeartbeat(request, CONTEXT))

    async def until(self, call: Callable[[], Awaitable[R]]) -> R:
        """Retries like a gateway while the coordinator is not ready."""
        async with asyncio.timeout(10):
            while True:
                try:
                    return await call()
                except KafkaError as error:
                    if error.code not in MOVED:
                        raise
                await asyncio.sleep(0.005)

    def _depart(self, group_id: str, member_id: str) -> None:
        self.departed.append((group_id, member_id))

    async def _changed(self, group_id: str, _partitions: object) -> None:
        self.departed.append((group_id, ""))
