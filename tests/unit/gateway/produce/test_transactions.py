"""Transactions: each call finds its coordinator; a list is complete or rejected."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.gateway.produce import transactions
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.conftest import Harness


class Coordinator:
    """A coordinator of all transactional ids; it raises `refusals` first."""

    def __init__(self) -> None:
        self.refusals: list[KafkaError] = []
        self.moved: list[ErrorCode] = []
        self.shards = list(range(50))
        self.requests: list[Any] = []

    def _ask(self, request: Any) -> None:
        self.requests.append(request)
        if self.refusals:
            raise self.refusals.pop(0)

    async def InitProducerId(self, request: Any, context: Any) -> pb.InitProducerIdResponse:
        self._ask(request)
        return pb.InitProducerIdResponse(producer_id=7)

    async def AddPartitionsToTxn(self, request: Any, context: Any) -> pb.AddPartitionsToTxnResponse:
        self._ask(request)
        return pb.AddPartitionsToTxnResponse()

    async def EndTxn(self, request: Any, context: Any) -> pb.EndTxnResponse:
        self._ask(request)
        return pb.EndTxnResponse(producer_id=7, producer_epoch=1)

    async def DescribeTransactions(self, request: Any, context: Any) -> pb.DescribeTransactionsResponse:
        self._ask(request)
        states = [
            transactions.Described(
                transactional_id=name, error_code=wire(self.moved.pop(0) if self.moved else ErrorCode.NONE)
            )
            for name in request.transactional_ids
        ]
        return pb.DescribeTransactionsResponse(transaction_states=states)

    async def ListTransactions(self, request: Any, context: Any) -> pb.ListTransactionsResponse:
        self._ask(request)
        found = [pb.ListTransactionsResponse.TransactionState(transactional_id=name) for name in "ba"]
        return pb.ListTransactionsResponse(
            transaction_states=found, shards=self.shards, unknown_state_filters=request.state_filters
        )


@pytest.fixture
def coordinator(harness: Harness) -> Coordinator:
    fake = Coordinator()
    harness.router.register_local(TransactionCoordinatorServiceStub, fake)
    return fake


MOVED = KafkaError(ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("name", ["x", None])
async def test_calls_are_retried_at_the_new_coordinator(
    harness: Harness, coordinator: Coordinator, name: str | None
) -> None:
    coordinator.refusals += [MOVED] * 3
    request = pb.InitProducerIdRequest(transactional_id=name)
    made = await transactions.init_producer_id(harness.gateway, request, Deadline(5))
    assert (made.producer_id, len(coordinator.requests)) == (7, 4)
    assert all(resource.startswith("transaction-coordinator:") for resource in harness.ownership.forgotten)
    added = pb.AddPartitionsToTxnRequest(transactional_id="x")
    await transactions.add_partitions_to_txn(harness.gateway, added, Deadline(5))
    ended = await transactions.end_txn(harness.gateway, pb.EndTxnRequest(transactional_id="x"), Deadline(5))
    assert ended.producer_epoch == 1


async def test_final_error_is_returned_at_once(harness: Harness, coordinator: Coordinator) -> None:
    coordinator.refusals.append(KafkaError(ErrorCode.PRODUCER_FENCED))
    with pytest.raises(KafkaError) as refused:
        await transactions.end_txn(harness.gateway, pb.EndTxnRequest(transactional_id="x"), Deadline(5))
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


async def test_describe_has_one_state_per_transactional_id(
    harness: Harness, coordinator: Coordinator
) -> None:
    coordinator.moved = [ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    states = await transactions.describe_transactions(harness.gateway, ["x"], Deadline(5))
    assert [ErrorCode(state.error_code) for state in states] == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    coordinator.refusals.append(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    states = await transactions.describe_transactions(harness.gateway, ["x", "y"], Deadline(5))
    codes = {state.transactional_id: ErrorCode(state.error_code) for state in states}
    assert codes == {"x": ErrorCode.KAFKA_STORAGE_ERROR, "y": ErrorCode.NONE}


async def test_list_needs_every_coordinator(harness: Harness, coordinator: Coordinator) -> None:
    request = pb.ListTransactionsRequest(state_filters=["Sleeping"])
    listed = await transactions.list_transactions(harness.gateway, request, Deadline(5))
    assert [state.transactional_id for state in listed.transaction_states] == ["a", "b"]
    assert list(listed.unknown_state_filters) == ["Sleeping"]
    del coordinator.shards[3]
    with pytest.raises(KafkaError) as refused:
        await transactions.list_transactions(harness.gateway, request, Deadline(0.05))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
