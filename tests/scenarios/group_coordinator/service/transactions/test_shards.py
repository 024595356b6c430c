"""Commands about transactions reach the shards of this process."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from tests.scenarios.group_coordinator.transaction_harness import CONTEXT, Cluster, Process, running


async def refusal(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await call
    return refused.value.code


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
    assert await refusal(process.coordinator.InitProducerId(request, CONTEXT)) is ErrorCode.NOT_COORDINATOR


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
