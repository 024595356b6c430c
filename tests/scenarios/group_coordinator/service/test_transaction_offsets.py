"""Offsets of consumer groups in transactions: confirmed once, completed by the next coordinator."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.leases import names
from sharebroker_server.routing.transaction_check import Claim
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster
from tests.testkit.waiting import eventually


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1, "group.initial.rebalance.delay.ms=0")


SHARD = shard_of("g", 50)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def commit(broker: Broker, offset: int, *, version: int = 2, epoch: int = 3) -> ErrorCode:
    request = pb.TxnOffsetCommitRequest(
        transactional_id="x", producer_id=7, producer_epoch=epoch, transaction_version=version
    )
    request.commit.group_id, request.commit.generation_id = "g", -1
    request.commit.partitions.add(topic_id="t", partition=4, committed_offset=offset)
    response = await broker.until(lambda: broker.groups.TxnOffsetCommit(request, CONTEXT))
    (partition,) = response.partitions
    return ErrorCode(partition.error_code)


async def end(broker: Broker, *, commit: bool = True, epoch: int = 4, coordinator: int = 7) -> None:
    request = pb.CompleteTransactionRequest(
        shard=SHARD,
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator,
    )
    await broker.until(lambda: broker.groups.CompleteTransaction(request, CONTEXT))


async def fetch(broker: Broker, *, require_stable: bool = True) -> list[tuple[int, ErrorCode]]:
    request = pb.OffsetFetchRequest(group_id="g", require_stable=require_stable)
    response = await broker.until(lambda: broker.groups.OffsetFetch(request, CONTEXT))
    return [(one.committed_offset, ErrorCode(one.error_code)) for one in response.partitions]


@pytest.mark.parametrize("version", [0, 2])
async def test_a_transaction_is_confirmed_once(cluster: Cluster, broker: Broker, version: int) -> None:
    assert await commit(broker, 5, version=version) is ErrorCode.NONE
    assert await commit(broker, 6, version=version) is ErrorCode.NONE
    partition = names.partition(OFFSETS_TOPIC_ID, SHARD)
    assert cluster.transactions.requests == [(Claim("x", adds=version == 2), 7, 3, partition)]
    assert await fetch(broker) == [(-1, UNSTABLE)]
    assert await fetch(broker, require_stable=False) == []
    await end(broker)
    assert await fetch(broker) == [(6, ErrorCode.NONE)]


async def test_next_coordinator_completes_the_transaction(cluster: Cluster, broker: Broker) -> None:
    await commit(broker, 5)
    await broker.stop()
    cluster.processes.remove(broker)
    heir = await cluster.start(2)
    assert await fetch(heir) == [(-1, UNSTABLE)]
    await end(heir, commit=False)
    await end(heir, commit=True)  # sent again, and changes nothing
    assert await fetch(heir) == []


async def test_stale_ends_are_rejected(broker: Broker) -> None:
    await commit(broker, 5)
    with pytest.raises(KafkaError) as older:
        await end(broker, epoch=2)
    assert older.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as fenced:
        await end(broker, coordinator=6)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await fetch(broker) == [(-1, UNSTABLE)]


async def test_transaction_ended_during_confirmation_is_confirmed_again(
    cluster: Cluster, broker: Broker
) -> None:
    cluster.transactions.open.clear()
    cluster.transactions.outcomes = [7, KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)]
    late = asyncio.create_task(commit(broker, 5))
    await eventually(lambda: cluster.transactions.requests)
    await end(broker)
    cluster.transactions.open.set()
    with pytest.raises(KafkaError) as fenced:
        await late
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(cluster.transactions.requests) == 2
    assert await fetch(broker) == [], "no producer would ever end it"


async def test_concurrent_confirmations_of_one_transaction(cluster: Cluster, broker: Broker) -> None:
    cluster.transactions.open.clear()
    both = [asyncio.create_task(commit(broker, offset)) for offset in (5, 6)]
    await eventually(lambda: len(cluster.transactions.requests) == 2)
    cluster.transactions.open.set()
    assert await asyncio.gather(*both) == [ErrorCode.NONE] * 2
    await end(broker)
    assert await fetch(broker) == [(6, ErrorCode.NONE)]


async def test_confirmation_attempts_are_limited(cluster: Cluster, broker: Broker) -> None:
    confirm = cluster.transactions.confirm

    async def confirm_and_end(claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        await end(broker)
        return await confirm(claim, producer_id, producer_epoch, partition)

    cluster.transactions.confirm = confirm_and_end  # type: ignore[method-assign]  # for this test
    with pytest.raises(KafkaError) as rejected:
        await commit(broker, 5)
    assert rejected.value.code is ErrorCode.INVALID_TXN_STATE
    assert await fetch(broker) == []


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_unconfirmed_transaction_is_rejected(
    cluster: Cluster, broker: Broker, error: ErrorCode, seen: ErrorCode
) -> None:
    cluster.transactions.outcomes = [KafkaError(error)]
    with pytest.raises(KafkaError) as rejected:
        await commit(broker, 5)
    assert rejected.value.code is seen
    assert await fetch(broker) == []


async def test_unreachable_transaction_coordinator_is_retriable(cluster: Cluster, broker: Broker) -> None:
    cluster.transactions.outcomes = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)]
    assert await commit(broker, 5) is ErrorCode.NONE  # `until` retries after COORDINATOR_NOT_AVAILABLE
    assert len(cluster.transactions.requests) == 2
