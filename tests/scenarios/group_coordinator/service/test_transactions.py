"""The transaction coordinator's RPCs, and the completion of decided transactions."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from tests.scenarios.group_coordinator.transaction_harness import CONTEXT, Cluster, Process, running
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def rejection(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as rejected:
        await call
    return rejected.value.code


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
        assert await rejection(process.add((producer[0], 9), 0, verify=True)) is ErrorCode.PRODUCER_FENCED


async def test_new_producer_aborts_the_open_transaction(cluster: Cluster) -> None:
    async with running(cluster) as process:
        zombie = await process.init()
        await process.add(zombie, 0)
        assert await process.init() == (zombie[0], 2)
        assert [row[:3] for row in cluster.leaders.written] == [(0, 1, False)]
        assert await rejection(process.end(zombie)) is ErrorCode.PRODUCER_FENCED


async def test_resuming_producer_states_its_epoch(cluster: Cluster) -> None:
    async with running(cluster) as process:
        producer_id, _ = await process.init()
        for _ in range(2):
            assert await process.init(producer_id=producer_id, producer_epoch=0) == (producer_id, 1)


async def test_a_slow_transaction_is_aborted(cluster: Cluster) -> None:
    async with running(cluster) as process:
        request = pb.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=30)
        response = await process.until(lambda: process.coordinator.InitProducerId(request, CONTEXT))
        await process.add((response.producer_id, 0), 0)
        await eventually(lambda: cluster.leaders.written)
        assert cluster.leaders.written[0][:3] == (0, 1, False)


async def test_end_of_unknown_outcome_is_resolved(cluster: Cluster) -> None:
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


async def test_producer_ids_are_unique(cluster: Cluster) -> None:
    async with running(cluster) as process:
        given = [await process.init(None) for _ in range(3)] + [
            await process.init("a"),
            await process.init("b"),
        ]
    async with running(cluster, node=2) as process:
        given += [await process.init(None), await process.init("c")]
    assert len({producer_id for producer_id, _ in given}) == len(given)
    assert {epoch for _, epoch in given} == {0}


async def test_without_a_shard_there_is_no_producer_id(cluster: Cluster) -> None:
    process = Process(cluster)
    request = pb.InitProducerIdRequest()
    assert await rejection(process.coordinator.InitProducerId(request, CONTEXT)) is ErrorCode.NOT_COORDINATOR


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
