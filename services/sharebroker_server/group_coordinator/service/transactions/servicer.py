"""The transaction coordinator's gRPC service."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceServicer,
)
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Aborting,
    AddPartitions,
    Describe,
    End,
    Initialize,
    ListTransactions,
    OfTransaction,
    Producer,
    ReadStaged,
    Reply,
    Stage,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.machine import CompletionRequested
from sharebroker_server.group_coordinator.core.transactions.model import (
    NONE,
    Staged,
    Transaction,
    TransactionState,
    Verdict,
)
from sharebroker_server.group_coordinator.service.transactions.completion import Completions
from sharebroker_server.group_coordinator.service.transactions.shards import (
    TransactionHost,
    TransactionShards,
    expected,
)
from sharebroker_server.rpc.errors import wire

R = TypeVar("R")
_STATES = {state.value: state for state in TransactionState}


class TransactionCoordinator(TransactionCoordinatorServiceServicer):
    """Kafka's transaction RPCs. Close it before its host is stopped."""

    def __init__(self, host: TransactionHost, config: GroupCoordinatorConfig, markers: Markers) -> None:
        self._shards = TransactionShards(host, config)
        self._completions = Completions(self._shards, markers)
        self._wait = config.ending_wait

    def perform(self, effect: Effect) -> None:
        """Executes an effect of a durable decision."""
        if not isinstance(effect, CompletionRequested):
            raise TypeError(f"not an effect of transactions: {effect!r}")
        self._completions.begin(effect.transactional_id)

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._completions.close()

    async def InitProducerId(
        self, request: pb.InitProducerIdRequest, _context: Any
    ) -> pb.InitProducerIdResponse:
        """Kafka: InitProducerId (22)."""
        if request.HasField("transactional_id"):
            producer = expected(await self._decided(_initialize(request)), Producer)
        else:
            producer = await self._shards.new_producer()
        return pb.InitProducerIdResponse(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )

    async def AddPartitionsToTxn(
        self, request: pb.AddPartitionsToTxnRequest, _context: Any
    ) -> pb.AddPartitionsToTxnResponse:
        """Kafka: AddPartitionsToTxn (24)."""
        requested = [TopicIdPartition(part.topic_id, part.partition) for part in request.partitions]
        producer = Producer(request.producer_id, request.producer_epoch)
        name, partitions = request.transactional_id, frozenset(requested)
        if request.verify_only:
            command: OfTransaction = VerifyPartitions(name, producer, partitions)
        else:
            command = AddPartitions(name, producer, partitions, request.transaction_version)
        part_of = expected(await self._decided(command), frozenset)
        added = [_added(key, key in part_of) for key in requested]
        return pb.AddPartitionsToTxnResponse(partitions=added, coordinator_epoch=self._shards.epoch(name))

    async def EndTxn(self, request: pb.EndTxnRequest, _context: Any) -> pb.EndTxnResponse:
        """Kafka: EndTxn (26)."""
        command = End(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            request.committed,
            request.transaction_version,
        )
        following = expected(await self._decided(command), Producer)
        self._completions.begin(request.transactional_id)
        return pb.EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)

    async def DescribeTransactions(
        self, request: pb.DescribeTransactionsRequest, _context: Any
    ) -> pb.DescribeTransactionsResponse:
        """Kafka: DescribeTransactions (65)."""
        states = await asyncio.gather(*map(self._describe, request.transactional_ids))
        return pb.DescribeTransactionsResponse(transaction_states=states)

    async def ListTransactions(
        self, request: pb.ListTransactionsRequest, _context: Any
    ) -> pb.ListTransactionsResponse:
        """Kafka: ListTransactions (66)."""
        found, shards = await self._shards.list(_listed(request))
        if request.state_filters and not _STATES.keys() & set(request.state_filters):
            found = {}
        return pb.ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in _STATES],
            transaction_states=[_summary(name, found[name]) for name in sorted(found)],
            shards=shards,
        )

    async def StageVerdicts(
        self, request: pb.StageVerdictsRequest, _context: Any
    ) -> pb.StageVerdictsResponse:
        """Stages verdicts of a planned batch."""
        producer = Producer(request.producer_id, request.producer_epoch)
        verdicts = tuple(
            Verdict(verdict.topic, verdict.partition, verdict.first_offset, verdict.last_offset, verdict.type)
            for verdict in request.verdicts
        )
        await self._shards.request(Stage(request.transactional_id, producer, request.batch, verdicts))
        return pb.StageVerdictsResponse()

    async def ReadStagedVerdicts(
        self, request: pb.ReadStagedVerdictsRequest, _context: Any
    ) -> pb.ReadStagedVerdictsResponse:
        """Returns the staged verdicts of a planned batch; records on request that they were carried out."""
        producer = Producer(request.producer_id, request.producer_epoch)
        command = ReadStaged(request.transactional_id, producer, request.batch, request.settle)
        staged = expected(await self._shards.request(command), Staged)
        return pb.ReadStagedVerdictsResponse(
            verdicts=map(_staged_verdict, staged.verdicts), settled=staged.reconciled
        )

    async def _decided(self, command: OfTransaction) -> Reply:
        """Returns the reply; waits up to `ending_wait` seconds for the completion of the transaction before.

        Kafka rejects such a request at once, and its clients poll. Raises CONCURRENT_TRANSACTIONS.
        """
        name, loop = command.transactional_id, asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        while True:
            try:
                reply = await self._shards.request(command)
                if not isinstance(reply, Aborting):
                    return reply
                rejection = rules.concurrent(name)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                rejection = error
            self._completions.begin(name)
            if not await self._completions.wait(name, deadline - loop.time()) or loop.time() >= deadline:
                raise rejection

    async def _describe(self, transactional_id: str) -> pb.DescribeTransactionsResponse.TransactionState:
        try:
            transaction = expected(await self._shards.request(Describe(transactional_id)), Transaction)
        except KafkaError as error:
            return pb.DescribeTransactionsResponse.TransactionState(
                transactional_id=transactional_id,
                error_code=wire(error.code),
                error_message=error.message,
            )
        return _description(transactional_id, transaction)


def _initialize(request: pb.InitProducerIdRequest) -> Initialize:
    expected = (
        Producer(request.producer_id, request.producer_epoch) if request.HasField("producer_id") else None
    )
    return Initialize(request.transactional_id, request.transaction_timeout_ms, expected)


def _added(partition: TopicIdPartition, is_part: bool) -> pb.AddPartitionsToTxnResponse.Partition:
    return pb.AddPartitionsToTxnResponse.Partition(
        topic_id=partition.topic_id,
        partition=partition.partition,
        error_code=wire(ErrorCode.NONE if is_part else ErrorCode.TRANSACTION_ABORTABLE),
    )


def _staged_verdict(verdict: Verdict) -> pb.StagedVerdict:
    return pb.StagedVerdict(
        topic=verdict.topic,
        partition=verdict.partition,
        first_offset=verdict.first,
        last_offset=verdict.last,
        type=delivery.AcknowledgeType.ValueType(verdict.kind),
    )


def _listed(request: pb.ListTransactionsRequest) -> ListTransactions:
    return ListTransactions(
        frozenset(_STATES[name] for name in request.state_filters if name in _STATES),
        frozenset(request.producer_id_filters),
        request.duration_filter if request.HasField("duration_filter") else NONE,
    )


def _summary(name: str, transaction: Transaction) -> pb.ListTransactionsResponse.TransactionState:
    return pb.ListTransactionsResponse.TransactionState(
        transactional_id=name,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.value,
    )


def _description(name: str, transaction: Transaction) -> pb.DescribeTransactionsResponse.TransactionState:
    return pb.DescribeTransactionsResponse.TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=[
            delivery.TopicPartition(topic_id=key.topic_id, partition=key.partition)
            for key in sorted(transaction.partitions)
        ],
    )
