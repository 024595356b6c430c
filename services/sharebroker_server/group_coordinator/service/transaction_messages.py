"""Converts between the RPC messages of transactions and the core's values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.core.transactions import commands as c
from sharebroker_server.group_coordinator.core.transactions.model import Staged, Transaction, Verdict
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.rpc.errors import refusal, wire

PRODUCER: Final[Conversion[c.ProducerIdAndEpoch, Any]] = Conversion(
    c.ProducerIdAndEpoch,
    pb.EndTxnRequest,  # and other messages with its fields
)
PARTITIONS: Final = Mapped(
    decode=lambda parts: frozenset(TopicIdPartition(part.topic_id, part.partition) for part in parts)
)
ADD: Final[Conversion[c.OfTransaction, Any]] = Conversion(
    c.AddPartitions,
    pb.AddPartitionsToTxnRequest,
    {"partitions": PARTITIONS, "version": "transaction_version"},
)
VERIFY: Final[Conversion[c.OfTransaction, Any]] = Conversion(
    c.VerifyPartitions, pb.AddPartitionsToTxnRequest, {"partitions": PARTITIONS}
)
END: Final = Conversion(c.End, pb.EndTxnRequest, {"commit": "committed", "version": "transaction_version"})
SUMMARY: Final = Conversion(
    Transaction,
    pb.ListTransactionsResponse.TransactionState,
    {"state": Mapped("transaction_state", encode=lambda state: state.value)},
)
DESCRIPTION: Final = Conversion(
    Transaction,
    pb.DescribeTransactionsResponse.TransactionState,
    {
        "state": Mapped("transaction_state", encode=lambda state: state.value),
        "timeout_ms": "transaction_timeout_ms",
        "start_ms": "transaction_start_time_ms",
        "partitions": Mapped(encode=lambda keys: [key._asdict() for key in sorted(keys)]),
    },
)
VERDICT: Final = Conversion(
    Verdict, pb.StagedVerdict, {"first": "first_offset", "last": "last_offset", "kind": "type"}
)
STAGE: Final = Conversion(c.Stage, pb.StageVerdictsRequest, {"verdicts": Mapped(nested=VERDICT)})
READ_STAGED: Final = Conversion(c.ReadStaged, pb.ReadStagedVerdictsRequest, {"reconciled": "mark_reconciled"})
STAGED: Final = Conversion(
    Staged,
    pb.ReadStagedVerdictsResponse,
    {"verdicts": Mapped(nested=VERDICT)},
)


def added(
    request: pb.AddPartitionsToTxnRequest, part_of: Collection[TopicIdPartition], epoch: int
) -> pb.AddPartitionsToTxnResponse:
    """Returns the response: requested partitions that are no part of the transaction have an error."""
    response = pb.AddPartitionsToTxnResponse(coordinator_epoch=epoch)
    for part in request.partitions:
        key = TopicIdPartition(part.topic_id, part.partition)
        code = ErrorCode.NONE if key in part_of else ErrorCode.TRANSACTION_ABORTABLE
        response.partitions.add(**key._asdict(), error_code=wire(code))
    return response


def not_described(name: str, error: KafkaError) -> pb.DescribeTransactionsResponse.TransactionState:
    """Returns the error in place of a transaction's description."""
    return pb.DescribeTransactionsResponse.TransactionState(transactional_id=name, **refusal(error))
