"""The transaction coordinator: its gRPC service, and the completion of decided transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceServicer,
)
from sharebroker_server.coordinator_runtime.host import expected
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.transactions import commands as c
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.model import (
    NONE,
    Staged,
    Transaction,
    TransactionState,
    Verdict,
)
from sharebroker_server.group_coordinator.service.shards import TransactionHost
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.rpc.errors import refusal, wire

_log = structlog.get_logger()

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
"""Seconds before a failed attempt is repeated; the pause doubles up to the maximum."""

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
            return pb.InitProducerIdResponse(**_PRODUCER.fields(await self._new_producer()))
        known = _PRODUCER.value(request) if request.HasField("producer_id") else None
        command = c.InitProducerId(request.transactional_id, request.transaction_timeout_ms, known)
        producer = expected(await self._decided(command), c.ProducerIdAndEpoch)
        return pb.InitProducerIdResponse(**_PRODUCER.fields(producer))

    async def AddPartitionsToTxn(
        self, request: pb.AddPartitionsToTxnRequest, _context: Any
    ) -> pb.AddPartitionsToTxnResponse:
        """Kafka: AddPartitionsToTxn (24)."""
        requested = [TopicIdPartition(part.topic_id, part.partition) for part in request.partitions]
        conversion = _VERIFY if request.verify_only else _ADD
        command = conversion.value(request, producer=_PRODUCER.value(request))
        part_of = expected(await self._decided(command), frozenset)
        epoch = self._host.of(request.transactional_id).epoch
        response = pb.AddPartitionsToTxnResponse(coordinator_epoch=epoch)
        for key in requested:
            code = ErrorCode.NONE if key in part_of else ErrorCode.TRANSACTION_ABORTABLE
            response.partitions.add(**key._asdict(), error_code=wire(code))
        return response

    async def EndTxn(self, request: pb.EndTxnRequest, _context: Any) -> pb.EndTxnResponse:
        """Kafka: EndTxn (26)."""
        command = _END.value(request, producer=_PRODUCER.value(request))
        following = expected(await self._decided(command), c.ProducerIdAndEpoch)
        self._completions.begin(request.transactional_id)
        return pb.EndTxnResponse(**_PRODUCER.fields(following))

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
            response.transaction_states.add(transactional_id=name, **_SUMMARY.fields(found[name]))
        return response

    async def StageVerdicts(
        self, request: pb.StageVerdictsRequest, _context: Any
    ) -> pb.StageVerdictsResponse:
        """Stages verdicts of a planned batch."""
        command = _STAGE.value(request, producer=_PRODUCER.value(request))
        await self._host.of(request.transactional_id).submit(command)
        return pb.StageVerdictsResponse()

    async def ReadStagedVerdicts(
        self, request: pb.ReadStagedVerdictsRequest, _context: Any
    ) -> pb.ReadStagedVerdictsResponse:
        """Returns the staged verdicts of a planned batch; records on request that they were carried out."""
        command = _READ_STAGED.value(request, producer=_PRODUCER.value(request))
        return _STAGED.message(await self._host.request(request.transactional_id, command, Staged))

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

    async def _decided(self, command: c.OfTransaction) -> c.Reply:
        """Returns the reply; waits up to `ending_wait` seconds for the completion of the transaction before.

        Kafka rejects such a request at once, and its clients poll. Raises CONCURRENT_TRANSACTIONS.
        """
        name, loop = command.transactional_id, asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        while True:
            try:
                reply = await self._host.of(name).submit(command)
                if not isinstance(reply, c.Aborting):
                    return reply
                rejection = rules.concurrent(name)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                rejection = error
            self._completions.begin(name)
            if not await self._completions.wait(name, deadline - loop.time()) or loop.time() >= deadline:
                raise rejection

    async def _describe(self, name: str) -> pb.DescribeTransactionsResponse.TransactionState:
        try:
            transaction = await self._host.request(name, c.Describe(name), Transaction)
        except KafkaError as error:
            return pb.DescribeTransactionsResponse.TransactionState(transactional_id=name, **refusal(error))
        return _DESCRIPTION.message(transaction, transactional_id=name)


class Completions:
    """Runs one task per decided transaction; the task ends when it is completed or the shard is lost."""

    def __init__(self, host: TransactionHost, markers: Markers) -> None:
        self._host = host
        self._markers = markers
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, transactional_id: str) -> None:
        """Starts the completion in the background unless it is running.

        A transaction that is not decided is left alone.
        """
        if transactional_id not in self._running:
            task = asyncio.create_task(
                self._run(transactional_id), name=f"complete transaction {transactional_id}"
            )
            self._running[transactional_id] = task
            task.add_done_callback(lambda _: self._running.pop(transactional_id))

    async def wait(self, transactional_id: str, timeout: float) -> bool:
        """Waits up to `timeout` seconds for a running completion; returns whether none is running."""
        task = self._running.get(transactional_id)
        if task is not None:
            await asyncio.wait([task], timeout=max(timeout, 0.0))
        return transactional_id not in self._running

    async def close(self) -> None:
        """Cancels running completions; the next owner of the shard repeats them."""
        await end(self._running.values())

    async def _run(self, transactional_id: str) -> None:
        attempt = _Attempt(transactional_id, self._host, self._markers)
        pause = FIRST_PAUSE
        while not await attempt.finished():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Attempt:
    """The completion of one transaction, and the partitions that lack their marker."""

    def __init__(self, transactional_id: str, host: TransactionHost, markers: Markers) -> None:
        self._transactional_id = transactional_id
        self._host = host
        self._markers = markers
        self._decided: Transaction | None = None
        self._unmarked: Collection[TopicIdPartition] = ()

    async def finished(self) -> bool:
        """Tries once; returns whether this process has nothing more to do."""
        try:
            return await self._advance()
        except KafkaError as error:
            _log.info(
                "transaction not completed yet", transactional_id=self._transactional_id, error=str(error)
            )
            return error.code is ErrorCode.NOT_COORDINATOR
        except Exception:  # without a retry the partitions would never get their markers
            _log.exception("transaction completion failed", transactional_id=self._transactional_id)
            return False

    async def _advance(self) -> bool:
        """Tries once; returns whether the transaction is completed. Raises KafkaError."""
        # Looked up again for each attempt: only the current owner writes markers, with its current epoch.
        shard = self._host.of(self._transactional_id)
        epoch = shard.epoch
        decided = await shard.submit(c.ReadEnding(self._transactional_id))
        if not isinstance(decided, Transaction):
            return True
        if decided != self._decided:
            self._decided, self._unmarked = decided, decided.partitions
        self._unmarked = await self._markers.write(decided, self._unmarked, epoch)
        if self._unmarked:
            return False
        ended = c.Ended(self._transactional_id, rules.producer_of(decided))
        await self._host.of(self._transactional_id).submit(ended)
        return True


_PRODUCER: Final[Conversion[c.ProducerIdAndEpoch, Any]] = Conversion(
    c.ProducerIdAndEpoch,
    pb.EndTxnRequest,  # and other messages with its fields
)
_PARTITIONS: Final = Mapped(
    decode=lambda parts: frozenset(TopicIdPartition(part.topic_id, part.partition) for part in parts)
)
_ADD: Final[Conversion[c.OfTransaction, Any]] = Conversion(
    c.AddPartitions,
    pb.AddPartitionsToTxnRequest,
    {"partitions": _PARTITIONS, "version": "transaction_version"},
)
_VERIFY: Final[Conversion[c.OfTransaction, Any]] = Conversion(
    c.VerifyPartitions, pb.AddPartitionsToTxnRequest, {"partitions": _PARTITIONS}
)
_END: Final = Conversion(c.End, pb.EndTxnRequest, {"commit": "committed", "version": "transaction_version"})
_SUMMARY: Final = Conversion(
    Transaction,
    pb.ListTransactionsResponse.TransactionState,
    {"state": Mapped("transaction_state", encode=lambda state: state.value)},
)
_DESCRIPTION: Final = Conversion(
    Transaction,
    pb.DescribeTransactionsResponse.TransactionState,
    {
        "state": Mapped("transaction_state", encode=lambda state: state.value),
        "timeout_ms": "transaction_timeout_ms",
        "start_ms": "transaction_start_time_ms",
        "partitions": Mapped(encode=lambda keys: [key._asdict() for key in sorted(keys)]),
    },
)
_VERDICT: Final = Conversion(
    Verdict, pb.StagedVerdict, {"first": "first_offset", "last": "last_offset", "kind": "type"}
)
_STAGE: Final = Conversion(c.Stage, pb.StageVerdictsRequest, {"verdicts": Mapped(nested=_VERDICT)})
_READ_STAGED: Final = Conversion(
    c.ReadStaged, pb.ReadStagedVerdictsRequest, {"reconciled": "mark_reconciled"}
)
_STAGED: Final = Conversion(
    Staged,
    pb.ReadStagedVerdictsResponse,
    {"verdicts": Mapped(nested=_VERDICT)},
)
