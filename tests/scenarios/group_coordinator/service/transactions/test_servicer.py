"""The transaction coordinator's RPCs: producers, partitions and ends of transactions."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from tests.scenarios.group_coordinator.transaction_harness import CONTEXT, Cluster, running
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually


async def refusal(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await call
    return refused.value.code


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


async def test_new_producer_aborts_the_open_transaction(cluster: Cluster) -> None:
    async with running(cluster) as process:
        zombie = await process.init()
        await process.add(zombie, 0)
        assert await process.init() == (zombie[0], 2)
        assert [row[:3] for row in cluster.leaders.written] == [(0, 1, False)]
        assert await refusal(process.end(zombie)) is ErrorCode.PRODUCER_FENCED


async def test_resuming_producer_states_its_epoch(cluster: Cluster) -> None:
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
