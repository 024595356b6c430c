"""The transaction coordinator: its gRPC service."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceServicer,
)
from sharebroker_server.coordinator_runtime.host import expected
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions import commands as c
from sharebroker_server.group_coordinator.core.transactions.model import (
    NONE,
    Staged,
    Transaction,
    TransactionState,
)
from sharebroker_server.group_coordinator.service.completions import Completions
from sharebroker_server.group_coordinator.service.shards import TransactionHost
from sharebroker_server.group_coordinator.service.transaction_messages import (
    ADD,
    DESCRIPTION,
    END,
    PRODUCER,
    READ_STAGED,
    STAGE,
    STAGED,
    SUMMARY,
    VERIFY,
    added,
    not_described,
)

_STATES: Final = {state.value: state for state in TransactionState}


class TransactionCoordinator(TransactionCoordinatorServiceServicer):
    """Kafka's transaction RPCs. Close it before its host is stopped."""

    def __init__(self, host: TransactionHost, config: GroupCoordinatorConfig, markers: Markers) -> None:
        self._host = host
        self._completions = Completions(host, markers)
        self._wait = config.ending_wait

    def perform(self, effect: Effect) -> None:
        """Executes an effect of a durable decision."""
        if not isinstance(effect, c.CompletionRequested):
            raise TypeError(f"not an effect of transactions: {effect!r}")
        self._completions.begin(effect.transactional_id)

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._completions.close()

    async def InitProducerId(
        self, request: pb.InitProducerIdRequest, _context: Any
    ) -> pb.InitProducerIdResponse:
        """Kafka: InitProducerId (22)."""
        if not request.HasField("transactional_id"):
            return pb.InitProducerIdResponse(**PRODUCER.fields(await self._new_producer()))
        known = PRODUCER.value(request) if request.HasField("producer_id") else None
        command = c.InitProducerId(request.transactional_id, request.transaction_timeout_ms, known)
        producer = expected(await self._completions.decided(command, self._wait), c.ProducerIdAndEpoch)
        return pb.InitProducerIdResponse(**PRODUCER.fields(producer))

    async def AddPartitionsToTxn(
        self, request: pb.AddPartitionsToTxnRequest, _context: Any
    ) -> pb.AddPartitionsToTxnResponse:
        """Kafka: AddPartitionsToTxn (24)."""
        conversion = VERIFY if request.verify_only else ADD
        command = conversion.value(request, producer=PRODUCER.value(request))
        part_of = expected(await self._completions.decided(command, self._wait), frozenset)
        return added(request, part_of, self._host.of(request.transactional_id).epoch)

    async def EndTxn(self, request: pb.EndTxnRequest, _context: Any) -> pb.EndTxnResponse:
        """Kafka: EndTxn (26)."""
        command = END.value(request, producer=PRODUCER.value(request))
        following = expected(await self._completions.decided(command, self._wait), c.ProducerIdAndEpoch)
        self._completions.begin(request.transactional_id)
        return pb.EndTxnResponse(**PRODUCER.fields(following))

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
        names = request.state_filters
        states = frozenset(_STATES[name] for name in names if name in _STATES)
        longer_than_ms = request.duration_filter if request.HasField("duration_filter") else NONE
        command = c.ListTransactions(states, frozenset(request.producer_id_filters), longer_than_ms)
        found, shards = await self._host.list_all(command)
        response = pb.ListTransactionsResponse(
            unknown_state_filters=[name for name in names if name not in _STATES], shards=shards
        )
        for name in sorted(found if states or not names else ()):
            response.transaction_states.add(transactional_id=name, **SUMMARY.fields(found[name]))
        return response

    async def StageVerdicts(
        self, request: pb.StageVerdictsRequest, _context: Any
    ) -> pb.StageVerdictsResponse:
        """Stages verdicts of a planned batch."""
        command = STAGE.value(request, producer=PRODUCER.value(request))
        await self._host.of(request.transactional_id).submit(command)
        return pb.StageVerdictsResponse()

    async def ReadStagedVerdicts(
        self, request: pb.ReadStagedVerdictsRequest, _context: Any
    ) -> pb.ReadStagedVerdictsResponse:
        """Returns the staged verdicts of a planned batch; records on request that they were carried out."""
        command = READ_STAGED.value(request, producer=PRODUCER.value(request))
        return STAGED.message(await self._host.request(request.transactional_id, command, Staged))

    async def _new_producer(self) -> c.ProducerIdAndEpoch:
        """Returns a producer id of any shard."""
        rejection = KafkaError(
            ErrorCode.NOT_COORDINATOR, "No shard of the transaction coordinator is on this broker."
        )
        for shard in self._host.held():
            try:
                return expected(await shard.submit(c.NewProducer()), c.ProducerIdAndEpoch)
            except KafkaError as error:
                rejection = error
        raise rejection

    async def _describe(self, name: str) -> pb.DescribeTransactionsResponse.TransactionState:
        try:
            transaction = await self._host.request(name, c.Describe(name), Transaction)
        except KafkaError as error:
            return not_described(name, error)
        return DESCRIPTION.message(transaction, transactional_id=name)
