"""The transaction coordinator's service: what producers ask, and how transactions come to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.service.transaction_shards import make_transaction_host
from sharebroker_server.group_coordinator.service.transactions import TransactionCoordinator
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Member
from sharebroker_server.rpc.local import LocalContext
from sharebroker_server.stream_log.memory import Fault, MemoryStreamLog
from sharebroker_server.testkit.waiting import eventually

CONTEXT = LocalContext()
NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
R = TypeVar("R")


class Leaders:
    """Stands for the leaders: `written` has (partition, producer epoch, commit, coordinator epoch)."""

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
    """What processes share."""

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
            cluster.leases, Member(f"{node}/1", node, frozenset({"group-coordinator"}), "")
        )

        def ending(name: str) -> None:
            self.coordinator.ending(name)

        self.host = make_transaction_host(cluster.log, config, self.follower, ending)
        self.coordinator = TransactionCoordinator(self.host, config, cluster.leaders)

    async def start(self) -> None:
        await self.host.start(self.holder)
        await self.holder.start()

    async def stop(self) -> None:
        await self.coordinator.close()
        await self.holder.stop()
        await self.host.stop()

    async def until(self, call: Callable[[], Awaitable[R]]) -> R:
        """What a gateway does: asks again while the coordinator is not ready."""
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
        answer = await self.until(lambda: self.coordinator.InitProducerId(request, CONTEXT))
        return answer.producer_id, answer.producer_epoch

    async def add(
        self, producer: tuple[int, int], *partitions: int, name: str = "x", verify: bool = False
    ) -> list[ErrorCode]:
        request = pb.AddPartitionsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], verify_only=verify
        )
        request.partitions.extend(delivery.TopicPartition(topic_id="t", partition=n) for n in partitions)
        answer = await self.until(lambda: self.coordinator.AddPartitionsToTxn(request, CONTEXT))
        assert [part.partition for part in answer.partitions] == list(partitions)
        return [ErrorCode(part.error_code) for part in answer.partitions]

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
        answer = await self.until(lambda: self.coordinator.EndTxn(request, CONTEXT))
        return answer.producer_id, answer.producer_epoch

    async def states(self, *names: str) -> list[str]:
        request = pb.DescribeTransactionsRequest(transactional_ids=names or ("x",))
        answer = await self.until(lambda: self.coordinator.DescribeTransactions(request, CONTEXT))
        return [one.transaction_state or ErrorCode(one.error_code).name for one in answer.transaction_states]


@asynccontextmanager
async def running(cluster: Cluster, *, node: int = 1, wait: float = 5.0) -> AsyncIterator[Process]:
    process = Process(cluster, node, wait)
    await process.start()
    try:
        yield process
    finally:
        cluster.leaders.open.set()
        await process.stop()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def refusal(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await call
    return refused.value.code


async def test_a_producer_id_is_never_given_twice(cluster: Cluster) -> None:
    async with running(cluster) as process:
        given = [await process.init(None) for _ in range(3)] + [
            await process.init("a"),
            await process.init("b"),
        ]
    async with running(cluster, node=2) as process:
        given += [await process.init(None), await process.init("c")]
    assert len({producer_id for producer_id, _ in given}) == len(given)
    assert {epoch for _, epoch in given} == {0}


async def test_no_shard_no_producer_id(cluster: Cluster) -> None:
    process = Process(cluster)
    request = pb.InitProducerIdRequest()
    assert await refusal(process.coordinator.InitProducerId(request, CONTEXT)) is ErrorCode.NOT_COORDINATOR


async def test_a_transaction_is_committed_in_each_of_its_partitions(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        assert await process.add(producer, 0, 2) == [ErrorCode.NONE] * 2
        following = await process.end(producer)
        assert following == (producer[0], 1)
        await eventually(lambda: [row[:3] for row in cluster.leaders.written] == [(0, 1, True), (2, 1, True)])
        assert await process.add(following, 1) == [ErrorCode.NONE]
        assert await process.states() == ["Ongoing"]


async def test_partitions_can_be_verified(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        assert await process.add(producer, 0, 1, verify=True) == [
            ErrorCode.NONE,
            ErrorCode.TRANSACTION_ABORTABLE,
        ]
        assert await refusal(process.add((producer[0], 9), 0, verify=True)) is ErrorCode.PRODUCER_FENCED


async def test_who_comes_too_early_waits_for_the_end_of_the_last_transaction(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.open.clear()
        following = await process.end(producer)
        adding = asyncio.create_task(process.add(following, 1))
        again = asyncio.create_task(process.end(producer))
        await asyncio.sleep(0.02)
        assert not adding.done()
        assert not again.done()
        cluster.leaders.open.set()
        assert await adding == [ErrorCode.NONE]
        await asyncio.gather(again, return_exceptions=True)


async def test_who_waited_long_enough_is_told_to_come_again(cluster: Cluster) -> None:
    async with running(cluster, wait=0.02) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.open.clear()
        following = await process.end(producer)
        assert await refusal(process.add(following, 1)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await refusal(process.init()) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_new_producer_has_the_open_transaction_aborted(cluster: Cluster) -> None:
    async with running(cluster) as process:
        zombie = await process.init()
        await process.add(zombie, 0)
        assert await process.init() == (zombie[0], 2)
        assert [row[:3] for row in cluster.leaders.written] == [(0, 1, False)]
        assert await refusal(process.end(zombie)) is ErrorCode.PRODUCER_FENCED


async def test_who_goes_on_after_an_error_says_what_it_had(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer_id, _ = await process.init()
        for _ in range(2):
            assert await process.init(producer_id=producer_id, producer_epoch=0) == (producer_id, 1)


async def test_a_slow_transaction_is_aborted(cluster: Cluster) -> None:
    async with running(cluster) as process:
        request = pb.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=30)
        answer = await process.until(lambda: process.coordinator.InitProducerId(request, CONTEXT))
        await process.add((answer.producer_id, 0), 0)
        await eventually(lambda: cluster.leaders.written)
        assert cluster.leaders.written[0][:3] == (0, 1, False)


async def test_leaders_that_cannot_do_it_are_asked_again_the_others_are_not(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0, 1)
        cluster.leaders.refuse[1] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await process.end(producer)
        await eventually(lambda: cluster.leaders.written)
        assert await process.states() == ["PrepareCommit"]
        cluster.leaders.failures += [
            KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            RuntimeError("a bug"),
        ]
        cluster.leaders.refuse.clear()
        await eventually(lambda: len(cluster.leaders.written) == 2)
        assert [row[0] for row in cluster.leaders.written] == [0, 1]


async def test_the_next_owner_ends_what_was_decided(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.leaders.refuse[0] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        following = await process.end(producer)
    assert not cluster.leaders.written
    cluster.leaders.refuse.clear()
    async with running(cluster, node=2) as process:
        await eventually(lambda: cluster.leaders.written)
        assert cluster.leaders.written[0][:3] == (0, 1, True)
        assert await process.add(following, 1) == [ErrorCode.NONE]
        assert await process.end(following) == (producer[0], 2)
        await eventually(lambda: len(cluster.leaders.written) == 2)
        first, second = (row[3] for row in cluster.leaders.written)
        assert first == second > 1


async def test_an_end_whose_fate_is_unknown_is_found_out(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer = await process.init()
        await process.add(producer, 0)
        cluster.log.fail_next_append(Fault.DONE_UNKNOWN)
        with pytest.raises(KafkaError):
            await process.coordinator.EndTxn(
                pb.EndTxnRequest(
                    transactional_id="x", producer_id=producer[0], committed=True, transaction_version=2
                ),
                CONTEXT,
            )
        assert await process.end(producer) == (producer[0], 1)
        await eventually(lambda: cluster.leaders.written)
        assert cluster.leaders.written[0][2]


async def test_transactions_are_described_and_listed(cluster: Cluster) -> None:
    async with running(cluster) as process:
        for name in ("a", "b", "c"):
            producer = await process.init(name)
            if name != "a":
                await process.add(producer, 0, name=name)
        assert await process.states("a", "b", "z") == ["Empty", "Ongoing", "TRANSACTIONAL_ID_NOT_FOUND"]
        request = pb.ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"])
        listed = await process.coordinator.ListTransactions(request, CONTEXT)
        assert [state.transactional_id for state in listed.transaction_states] == ["b", "c"]
        assert list(listed.unknown_state_filters) == ["Sleeping"]
        assert list(listed.shards) == [0, 1, 2]
        request = pb.ListTransactionsRequest(state_filters=["Sleeping"])
        assert not (await process.coordinator.ListTransactions(request, CONTEXT)).transaction_states
        request = pb.ListTransactionsRequest(duration_filter=10**9)
        assert not (await process.coordinator.ListTransactions(request, CONTEXT)).transaction_states
