"""A share-partition leader on stores in memory, with a real share coordinator behind it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast
from unittest.mock import patch

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogCodec, CatalogRecord, ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.names import Shard
from sharebroker_server.leases.placement import preferred
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.default import DefaultPersister, PersisterSettings
from sharebroker_server.persister.port import (
    Begun,
    Changes,
    Persister,
    SharePartitionState,
    StateSummary,
)
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.routing.router import Peer
from sharebroker_server.routing.transaction_check import Claim, TransactionCheck
from sharebroker_server.rpc.stubs import LocalStub
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates
from sharebroker_server.share_coordinator.service.servicer import ShareCoordinator
from sharebroker_server.share_coordinator.service.shards import make_host
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.requests.servicer import SharePartitionLeaderServicer
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader import virtual_time

TOPIC = "T" * 22
NAME = "orders"
GROUP = "g"
ME = ClusterMember("1/1", 1, frozenset({"share-partition-leader", "share-coordinator"}), "here:1")

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Faults(Persister):
    """A persister that forwards to another one; a test can intercept its writes and reads."""

    def __init__(self, behind: Persister) -> None:
        self._behind = behind
        self.before: deque[Exception | None] = deque()
        """Raised by the next writes instead of writing."""
        self.after: deque[Exception | None] = deque()
        """Raised by the next writes that were written."""
        self.on_read: deque[Exception] = deque()
        self.writes: list[StateWrite] = []
        self.written = 0
        self.reads = 0
        self.open = asyncio.Event()
        self.open.set()

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        await self._behind.initialize(key, state_epoch, start_offset, since_epoch=since_epoch)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        self.reads += 1
        await self.open.wait()
        if self.on_read:
            raise self.on_read.popleft()
        return await self._behind.read(key, leader_epoch)

    def shard(self, key: SharePartitionKey) -> Shard:
        return self._behind.shard(key)

    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
        """Returns None while a test intercepts writes: they then use the slower path."""
        if self.before or self.after or not self.open.is_set():
            return None
        begun = self._behind.begin(shard, changes)
        if begun is not None:
            self.writes += [change for _, change in changes]
            begun.add_done_callback(self._begun)
        return begun

    def _begun(self, begun: Begun) -> None:
        if begun.exception() is None:
            self.written += sum(not isinstance(outcome, KafkaError) for outcome in begun.result())

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        self.writes.append(change)
        await self.open.wait()
        if self.before and (failure := self.before.popleft()) is not None:
            raise failure
        await self._behind.write(key, change)
        self.written += 1
        if self.after and (failure := self.after.popleft()) is not None:
            raise failure

    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        await self._behind.delete(key, state_epoch)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        if self.on_read:
            raise self.on_read.popleft()
        return await self._behind.read_summary(key)


class Records(MemoryRecordStore):
    """A record store that can be slow to read."""

    def __init__(self, epoch_of: Callable[[str], int]) -> None:
        super().__init__(epoch_of)
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        await self.open.wait()
        return await super().read(partition, offset, max_bytes)


class Transactions(TransactionCheck):
    """A fake of the transaction coordinator: it confirms unless `refusals` has an error."""

    def __init__(self) -> None:
        self.requests: list[tuple[Claim, int, int, str]] = []
        self.refusals: list[KafkaError] = []
        self.open = asyncio.Event()
        self.open.set()

    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        self.requests.append((claim, producer_id, producer_epoch, partition))
        await self.open.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        return 1


class _Coordinators:
    """One share coordinator, called without a socket."""

    def __init__(self, servicer: ShareCoordinator, catalog: MetadataCache) -> None:
        self._peer = Peer(ME, cast("Any", LocalStub(servicer)))
        self._states = servicer
        self._catalog = catalog

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> Shard:
        return names.partition(topic_id, partition) if self._catalog.state_in_log(topic_id) else 0

    async def share_coordinator(self, shard: Shard) -> Peer[Any]:
        return self._peer

    def local_states(self, shard: Shard) -> ShareCoordinator:
        return self._states

    def forget_share_coordinator(self, shard: Shard) -> None:
        """This is the only shard owner."""


class Harness:
    """Everything of one process; `start` and `stop` it, or use `harness()`."""

    def __init__(self, upstream: Callable[[RecordStore], UpstreamLogs] | None = None) -> None:
        clock = asyncio.get_running_loop().time
        self.leases = MemoryLeaseStore(clock)
        self.records = Records(self.leases.epoch_of)
        self.log = MemoryStreamLog(self.leases.epoch_of)
        self.holder = LeaseHolder(self.leases, ME, ttl=1e6, clock=clock)
        self.catalog = MetadataCache(self.log, BrokerConfig(), poll=1e6)
        config = ShareCoordinatorConfig.of(BrokerConfig(share_coordinator_state_topic_num_partitions=1))
        self._host = make_host(self.log, config)
        states = PartitionStates(config.rules, config.runtime, self.catalog.state_in_log)
        coordinator = ShareCoordinator(self._host, states, self.leases, lambda *_: True, str)
        settings = PersisterSettings(call_timeout=5.0)
        persister = DefaultPersister(_Coordinators(coordinator, self.catalog), settings)
        self.persister = Faults(persister)
        self.upstream = None if upstream is None else upstream(self.records)
        self.leadership = Leadership(
            self.holder, self.records, self.persister, self.catalog, states, self.upstream
        )
        states.claim = self.leadership.led
        self.catalog.add_observer(self.leadership.metadata_changed)
        self.transactions = Transactions()
        servicer = SharePartitionLeaderServicer(self.leadership, self.catalog, self.transactions)
        self.stub, self.local = LocalStub(servicer), servicer.calls
        self._codec = CatalogCodec()
        self.topic_id = TOPIC

    async def start(self) -> None:
        await self._host.start(self.holder)
        await self.holder.start()
        await self.catalog.start()

    async def stop(self) -> None:
        await self.leadership.close()
        if self.upstream is not None:
            await self.upstream.close()
        await self.catalog.stop()
        await self.holder.stop()
        await self._host.stop()

    # The cluster

    async def append_to_catalog(self, *records: CatalogRecord) -> None:
        """Appends to the catalog and waits until the record is applied."""
        position = await self.log.last_position("catalog")
        payloads = [self._codec.encode(record) for record in records]
        await self.log.append("catalog", 0, position + 1, payloads)
        await self.catalog.wait_for(lambda seen: seen.position >= position + len(records), 5)

    async def create_topic(
        self,
        partitions: int = 1,
        group: str = GROUP,
        start: int = 0,
        name: str = NAME,
        topic_id: str = TOPIC,
        configs: dict[str, str] | None = None,
    ) -> None:
        """A topic whose share state is initialised for a group."""
        self.topic_id = topic_id
        topic = Topic(topic_id, name, partitions, configs or {}, upstream=self.upstream is not None)
        await self.append_to_catalog(TopicRecord(topic))
        for index in range(partitions):
            await self.initialize(index, group=group, start=start)

    async def initialize(
        self, partition: int = 0, *, group: str = GROUP, state_epoch: int = 1, start: int = 0
    ) -> None:
        await self.persister.initialize(
            SharePartitionKey(group, self.topic_id, partition), state_epoch, start
        )

    async def configure(self, key: str, value: str, group: str = GROUP) -> None:
        await self.append_to_catalog(ConfigRecord(ConfigResource(ResourceType.GROUP, group), key, value))

    async def hand_over(self, partition: int = 0) -> None:
        """Announces a broker that is the preferred leader, so that the partition is handed over."""
        resource = names.partition(self.topic_id, partition)
        for node in range(2, 1000):
            other = ClusterMember(f"{node}/1", node, frozenset({"share-partition-leader"}), f"node{node}:1")
            if preferred(resource, "share-partition-leader", [ME, other]) is other:
                break
        await self.leases.announce(other, 1e6)
        await self.holder.reconcile()
        await eventually(lambda: self.holder.holds(resource) is None)

    async def evict_hot_cache(self, partition: int = 0) -> None:
        """Evicts the leader's cached records; the store keeps them."""
        log = await self.own_log(partition)
        log._state.hot_cache.drop_before(log.log_end_offset)

    async def own_log(self, partition: int = 0) -> PartitionLog:
        return (await self.leadership.led(self.topic_id, partition)).own_log

    # Calls

    async def publish(self, count: int, partition: int = 0, size: int = 10) -> int:
        """Publishes one batch of `count` records; its first offset."""
        return await self.publish_bytes(batch(count, size), partition)

    async def publish_bytes(self, data: bytes, partition: int = 0) -> int:
        part = pb.ProduceRequest.Partition(topic_id=self.topic_id, partition=partition, record_batches=data)
        (response,) = (await self.stub.Produce(pb.ProduceRequest(partitions=[part]))).partitions
        assert not response.error_code, response
        return int(response.base_offset)

    async def acquire(
        self, most: int = 500, *, member: str = "m1", partitions: Iterable[int] = (0,), **fields: Any
    ) -> list[pb.AcquireRecordsResponse.Partition]:
        request = pb.AcquireRecordsRequest(
            group_id=GROUP,
            member_id=member,
            partitions=[delivery.TopicPartition(topic_id=self.topic_id, partition=n) for n in partitions],
            **{"max_records": most, **fields},
        )
        return list((await self.stub.AcquireRecords(request)).partitions)

    async def acknowledge(
        self, *batches: tuple[int, int, int], member: str = "m1", partition: int = 0, **fields: Any
    ) -> pb.AcknowledgeRecordsResponse.Partition:
        """Acknowledges (first, last, type) by a single call."""
        token, delay, renew = fields.pop("token", 0), fields.pop("delay_ms", None), fields.pop("renew", True)
        part = pb.AcknowledgeRecordsRequest.Partition(
            topic_id=self.topic_id,
            partition=partition,
            delay_ms=delay,
            batches=[
                pb.AcknowledgeRecordsRequest.Batch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind], lock_token=token
                )
                for first, last, kind in batches
            ],
        )
        request = pb.AcknowledgeRecordsRequest(
            group_id=GROUP, member_id=member, partitions=[part], renew_allowed=renew, **fields
        )
        (response,) = (await self.stub.AcknowledgeRecords(request)).partitions
        return cast("pb.AcknowledgeRecordsResponse.Partition", response)

    async def share_partition(self, partition: int = 0, group: str = GROUP) -> ShareGroupPartition:
        return await self.leadership.share_partition(group, self.topic_id, partition)

    async def start_offset(self, partition: int = 0, group: str = GROUP) -> int:
        """Returns the state in the share coordinator."""
        return (
            await self.persister.read_summary(SharePartitionKey(group, self.topic_id, partition))
        ).start_offset


class _Answered(Protocol):
    @property
    def error_code(self) -> Any: ...


def code(response: _Answered) -> ErrorCode:
    """Returns the error code in a response."""
    return ErrorCode(response.error_code)


@asynccontextmanager
async def harness(make: Callable[[], Harness] = Harness) -> AsyncIterator[Harness]:
    """A started harness, on virtual time."""
    clocks = [
        patch(f"sharebroker_server.share_partition_leader.{module}.now", virtual_time.now)
        for module in (
            "share_partition.share_group_partition",
            "share_partition.reading",
            "log.retention",
        )
    ]
    for clock in clocks:
        clock.start()
    running = make()
    await running.start()
    try:
        yield running
    finally:
        await running.stop()
        for clock in clocks:
            clock.stop()
