"""Processes with the transaction coordinator's role on stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.service.shards import make_transaction_host
from sharebroker_server.group_coordinator.service.transactions import TransactionCoordinator
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.rpc.stubs import LocalContext
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import MemoryStreamLog

CONTEXT = LocalContext()
NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
R = TypeVar("R")


class Leaders:
    """A fake of the leaders: `written` has (partition, producer epoch, commit, coordinator epoch)."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int, bool, int]] = []
        self.refuse: dict[int, KafkaError] = {}
        self.failures: list[BaseException] = []
        self.open = asyncio.Event()
        self.open.set()

    async def write(
        self, ending: Transaction, partitions: Collection[TopicIdPartition], coordinator_epoch: int
    ) -> Collection[TopicIdPartition]:
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        commit = ending.state.value == "PrepareCommit"
        done = [one for one in sorted(partitions) if one.partition not in self.refuse]
        self.written += [(one.partition, ending.producer_epoch, commit, coordinator_epoch) for one in done]
        return set(partitions) - set(done)


class Cluster:
    """The stores that processes share."""

    def __init__(self) -> None:
        self.leases = MemoryLeaseStore()
        self.log = MemoryStreamLog(self.leases.epoch_of)
        self.leaders = Leaders()


class Process:
    """A process with the role."""

    def __init__(self, cluster: Cluster, node: int = 1, wait: float = 5.0) -> None:
        config = GroupCoordinatorConfig(transaction_shards=3, ending_wait=wait)
        self.follower = MetadataCache(cluster.log, BrokerConfig())
        self.holder = LeaseHolder(
            cluster.leases, ClusterMember(f"{node}/1", node, frozenset({"group-coordinator"}), "")
        )

        self.host = make_transaction_host(cluster.log, config, self.follower)
        self.coordinator = TransactionCoordinator(self.host, config, cluster.leaders)

    async def start(self) -> None:
        await self.host.start(self.holder, self.coordinator.perform)
        await self.holder.start()

    async def stop(self) -> None:
        await self.coordinator.close()
        await self.holder.stop()
        await self.host.stop()

    async def until(self, call: Callable[[], Awaitable[R]]) -> R:
        """Retries like a gateway while the coordinator is not ready."""
        async with asyncio.timeout(10):
            while True:
                try:
                    return await call()
                except KafkaError as error:
                    if error.code not in NOT_READY:
                        raise
                await asyncio.sleep(0.005)

    async def init(self, name: str | None = "x", **known: int) -> tuple[int, int]:
        request = pb.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **known)
        response = await self.until(lambda: self.coordinator.InitProducerId(request, CONTEXT))
        return response.producer_id, response.producer_epoch

    async def add(
        self, producer: tuple[int, int], *partitions: int, name: str = "x", verify: bool = False
    ) -> list[ErrorCode]:
        request = pb.AddPartitionsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], verify_only=verify
        )
        request.partitions.extend(delivery.TopicPartition(topic_id="t", partition=n) for n in partitions)
        response = await self.until(lambda: self.coordinator.AddPartitionsToTxn(request, CONTEXT))
        assert [part.partition for part in response.partitions] == list(partitions)
        return [ErrorCode(part.error_code) for part in response.partitions]

    async def end(
        self, producer: tuple[int, int], *, commit: bool = True, name: str = "x", version: int = 2
    ) -> tuple[int, int]:
        request = pb.EndTxnRequest(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
            transaction_version=version,
        )
        response = await self.until(lambda: self.coordinator.EndTxn(request, CONTEXT))
        return response.producer_id, response.producer_epoch

    async def states(self, *names: str) -> list[str]:
        request = pb.DescribeTransactionsRequest(transactional_ids=names or ("x",))
        response = await self.until(lambda: self.coordinator.DescribeTransactions(request, CONTEXT))
        return [
            one.transaction_state or ErrorCode(one.error_code).name for one in response.transaction_states
        ]


@asynccontextmanager
async def running(cluster: Cluster, *, node: int = 1, wait: float = 5.0) -> AsyncIterator[Process]:
    process = Process(cluster, node, wait)
    await process.start()
    try:
        yield process
    finally:
        cluster.leaders.open.set()
        await process.stop()
