"""A share coordinator's shard on every log: the log in memory and Redis streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember, LeaseStore
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.links import connect
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    Initialize,
    Inspect,
    Inspection,
    Read,
    ReadReply,
    Reply,
    Write,
)
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.service.shards import Host, make_host
from sharebroker_server.stream_log.port import StreamLog
from sharebroker_server.stream_log.redis import RedisStreamLog
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.servers import kinds
from tests.testkit.shared_servers import CLUSTER, Servers
from tests.testkit.waiting import eventually

Shard = ShardRuntime[Command, ShareRecord, Reply]

TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"
KEY = SharePartitionKey("g", TOPIC, 0)


@dataclass
class Store:
    """The stores that the processes of a cluster share."""

    leases: LeaseStore
    log: StreamLog


class Process:
    """A process that may own the only shard."""

    def __init__(self, store: Store, node: int, *, trim_records: int = 1000) -> None:
        config = ShareCoordinatorConfig.of(
            BrokerConfig.parse(["share.coordinator.state.topic.num.partitions=1"])
        )
        runtime = replace(config.runtime, trim_records=trim_records)
        member = ClusterMember(f"{node}/1", node, frozenset({"share-coordinator"}), "")
        self.host: Host = make_host(store.log, replace(config, runtime=runtime))
        self.holder = LeaseHolder(store.leases, member, ttl=30.0)

    async def start(self) -> Shard:
        await self.host.start(self.holder)
        await self.holder.start()
        return await self.active()

    async def active(self) -> Shard:
        await eventually(lambda: any(shard.state is ShardState.ACTIVE for shard in self.host.held()))
        return self.host.shard(0)


@pytest.fixture(params=["memory", *kinds(), CLUSTER])
async def store(request: pytest.FixtureRequest, redis_servers: Servers) -> AsyncIterator[Store]:
    if request.param == "memory":
        leases = MemoryLeaseStore()
        yield Store(leases, MemoryStreamLog(leases.epoch_of))
        return
    link = await connect(redis_servers.fresh(request.param))
    yield Store(RedisLeaseStore(link), RedisStreamLog(link))
    await link.close()


def write(first: int, last: int, start: int = -1, key: SharePartitionKey = KEY) -> Write:
    return Write(key, 1, 1, start, 0, (StateBatch(first, last, 2, 1),))


async def test_hand_over_keeps_acknowledged_writes(store: Store) -> None:
    first = Process(store, 1)
    shard = await first.start()
    await shard.submit(Initialize(KEY, 1, 0))
    await asyncio.gather(*(shard.submit(write(2 * n, 2 * n)) for n in range(50)))
    await first.holder.stop()
    second = Process(store, 2)
    reply = await (await second.start()).submit(Read(KEY, 1, 1))
    assert isinstance(reply, ReadReply)
    assert [batch.first for batch in reply.state_batches] == [2 * n for n in range(50)]
    await second.holder.stop()


async def test_former_owner_is_fenced_by_the_log(store: Store) -> None:
    first = Process(store, 1)
    shard = await first.start()
    await shard.submit(Initialize(KEY, 1, 0))
    # what a process that was frozen for too long has not read
    await store.leases.release("share-coordinator:0", "1/1")
    await store.leases.claim("share-coordinator:0", "2/1", 30.0)
    with pytest.raises(KafkaError) as rejected:
        await shard.submit(write(0, 9))
    assert rejected.value.code is ErrorCode.NOT_COORDINATOR
    assert shard.state is ShardState.CLOSED
    await first.holder.stop()


async def test_replaced_records_leave_the_log(store: Store) -> None:
    process = Process(store, 1, trim_records=10)
    shard = await process.start()
    await shard.submit(Initialize(KEY, 1, 0))
    for n in range(100):
        await shard.submit(write(10 * n, 10 * n + 9, start=10 * n))
    assert len(await store.log.read("share-coordinator:0", 0, 1000)) < 25
    await process.holder.stop()
    later = Process(store, 2)
    reply = await (await later.start()).submit(Read(KEY, 1, 1))
    assert reply == ReadReply(1, 990, (StateBatch(990, 999, 2, 1),))
    await later.holder.stop()


async def test_deleted_log_keeps_only_its_end(store: Store) -> None:
    process = Process(store, 1, trim_records=1)
    shard = await process.start()
    await shard.submit(Initialize(KEY, 1, 0))
    await shard.submit(write(4, 4))
    await shard.submit(Delete(KEY))
    await process.holder.stop()
    assert await store.log.read("share-coordinator:0", 0, 1000) == []
    later = Process(store, 2)
    shard = await later.start()
    await shard.submit(Initialize(KEY, 1, 7))
    assert await shard.submit(Read(KEY, 0)) == ReadReply(1, 7, ())
    inspection = await shard.submit(Inspect(KEY))
    assert isinstance(inspection, Inspection)
    assert inspection.last_position == 5  # behind a checkpoint, a delta and two tombstones that were trimmed
    await later.holder.stop()
