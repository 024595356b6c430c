"""Idempotent producers and transactions, for all listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import randrange
from typing import TYPE_CHECKING

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.gateway.clients import raise_moved, retry_until_found
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.routing.router import TRANSACTIONS
from sharebroker_server.rpc.errors import refusal

if TYPE_CHECKING:
    from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
        TransactionCoordinatorServiceAsyncStub as Stub,
    )

Described = pb.DescribeTransactionsResponse.TransactionState


async def init_producer_id(
    gateway: Gateway, request: pb.InitProducerIdRequest, deadline: Deadline
) -> pb.InitProducerIdResponse:
    """Returns a producer id and epoch (Kafka: InitProducerId).

    Raises INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    # Without a transactional id every coordinator can serve the request.
    name = request.transactional_id or f"any:{randrange(2**32)}"
    return await gateway.coordinators.of_transaction(
        name, lambda stub, seconds: stub.InitProducerId(request, timeout=seconds), deadline
    )


async def add_partitions_to_txn(
    gateway: Gateway, request: pb.AddPartitionsToTxnRequest, deadline: Deadline
) -> pb.AddPartitionsToTxnResponse:
    """Adds partitions to a transaction, or verifies that it has them (Kafka: AddPartitionsToTxn).

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    return await gateway.coordinators.of_transaction(
        request.transactional_id,
        lambda stub, seconds: stub.AddPartitionsToTxn(request, timeout=seconds),
        deadline,
    )


async def end_txn(gateway: Gateway, request: pb.EndTxnRequest, deadline: Deadline) -> pb.EndTxnResponse:
    """Commits or aborts (Kafka: EndTxn). The outcome is durable when it returns; markers follow.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    return await gateway.coordinators.of_transaction(
        request.transactional_id, lambda stub, seconds: stub.EndTxn(request, timeout=seconds), deadline
    )


async def stage_verdicts(gateway: Gateway, request: pb.StageVerdictsRequest, deadline: Deadline) -> None:
    """Stages verdicts of a session, durable.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_REQUEST.
    """
    await gateway.coordinators.of_transaction(
        request.transactional_id, lambda stub, seconds: stub.StageVerdicts(request, timeout=seconds), deadline
    )


async def read_staged_verdicts(
    gateway: Gateway, request: pb.ReadStagedVerdictsRequest, deadline: Deadline
) -> pb.ReadStagedVerdictsResponse:
    """Returns the verdicts staged for a batch. Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
    return await gateway.coordinators.of_transaction(
        request.transactional_id,
        lambda stub, seconds: stub.ReadStagedVerdicts(request, timeout=seconds),
        deadline,
    )


async def describe_transactions(
    gateway: Gateway, transactional_ids: Sequence[str], deadline: Deadline
) -> list[Described]:
    """Returns one state per transactional id, in order (Kafka: DescribeTransactions)."""

    async def describe(name: str) -> Described:
        request = pb.DescribeTransactionsRequest(transactional_ids=[name])

        async def send(stub: Stub, seconds: float) -> Described:
            (state,) = (await stub.DescribeTransactions(request, timeout=seconds)).transaction_states
            raise_moved(state.error_code, state.error_message)
            return state

        try:
            return await gateway.coordinators.of_transaction(name, send, deadline)
        except KafkaError as error:
            return Described(transactional_id=name, **refusal(error))

    return await gateway.turns.gather(describe, transactional_ids)


async def list_transactions(
    gateway: Gateway, request: pb.ListTransactionsRequest, deadline: Deadline
) -> pb.ListTransactionsResponse:
    """Returns the transactions of all coordinators, by id. Raises KafkaError if one is missing."""

    async def attempt(seconds: float) -> pb.ListTransactionsResponse:
        peers = gateway.router.transaction_coordinators()
        responses = await asyncio.gather(
            *(peer.stub.ListTransactions(request, timeout=seconds) for peer in peers)
        )
        shards = sorted({shard for response in responses for shard in response.shards})
        gateway.router.check_all_answered(TRANSACTIONS, shards)
        found = {
            state.transactional_id: state for response in responses for state in response.transaction_states
        }
        return pb.ListTransactionsResponse(
            unknown_state_filters=responses[0].unknown_state_filters,
            transaction_states=[found[name] for name in sorted(found)],
            shards=shards,
        )

    return await retry_until_found(attempt, lambda: None, deadline)
