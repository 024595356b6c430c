"""Sessions of planned batches: who may speak for one.

A session is fenced as a transactional producer is, and by the same records: opening it takes a producer id
and epoch for a transactional id made of its name. See services/decisions/0039.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.planning import Piece
from sharebroker_server.gateway.core.validation import check_bounds, check_member_id
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.produce.transactions import (
    add_partitions_to_txn,
    init_producer_id,
    read_staged_verdicts,
    stage_verdicts,
)

PREFIX: Final = "plan-session"
_EPOCH_BITS: Final = 16
_EPOCH_MASK: Final = (1 << _EPOCH_BITS) - 1
_TIMEOUT_MS: Final = 60_000
_BATCH_LENGTH: Final = 64


class StagedBatch(NamedTuple):
    """What was staged for a batch; `settled`: it was carried out before."""

    pieces: Sequence[Piece] = ()
    settled: bool = False

    @property
    def waits(self) -> bool:
        """Whether there is something to carry out."""
        return bool(self.pieces) and not self.settled


async def open_session(gateway: Gateway, key: SessionKey, deadline: Deadline) -> int:
    """Take a session over; its epoch from here on, durable. Raises KafkaError."""
    _check(key)
    request = transactions.InitProducerIdRequest(
        transactional_id=_transactional_id(key), transaction_timeout_ms=_TIMEOUT_MS
    )
    producer = await init_producer_id(gateway, request, deadline)
    return producer.producer_id << _EPOCH_BITS | producer.producer_epoch


async def session_key(gateway: Gateway, session: pb.PlanSession, deadline: Deadline) -> SessionKey:
    """The member a session is. Raises FENCED_MEMBER_EPOCH for an older epoch; UNKNOWN_MEMBER_ID."""
    key = SessionKey(session.group_id, session.session_id)
    _check(key)
    request = transactions.AddPartitionsToTxnRequest(
        transactional_id=_transactional_id(key),
        producer_id=session.epoch >> _EPOCH_BITS,
        producer_epoch=session.epoch & _EPOCH_MASK,
        verify_only=True,
    )
    try:
        await add_partitions_to_txn(gateway, request, deadline)
    except KafkaError as error:
        raise _told(error, key) from error
    return key


async def stage(
    gateway: Gateway, session: pb.PlanSession, batch: str, pieces: Sequence[Piece], deadline: Deadline
) -> None:
    """Keep what is said of records until their batch is committed. Raises KafkaError."""
    key = SessionKey(session.group_id, session.session_id)
    _check(key)
    check_bounds("batch", len(batch), 1, _BATCH_LENGTH)
    request = transactions.StageVerdictsRequest(
        transactional_id=_transactional_id(key),
        producer_id=session.epoch >> _EPOCH_BITS,
        producer_epoch=session.epoch & _EPOCH_MASK,
        batch=batch,
        verdicts=(
            transactions.StagedVerdict(
                topic=one.topic,
                partition=one.partition,
                first_offset=one.first,
                last_offset=one.last,
                type=delivery.AcknowledgeType.ValueType(one.kind),
            )
            for one in pieces
        ),
    )
    try:
        await stage_verdicts(gateway, request, deadline)
    except KafkaError as error:
        raise _told(error, key) from error


async def staged(
    gateway: Gateway, session: pb.PlanSession, batch: str, deadline: Deadline, *, settle: bool = False
) -> StagedBatch:
    """What was staged for a batch, where it has a name. Raises KafkaError.

    `settle`: it is carried out; note that.
    """
    if not batch:
        return StagedBatch()
    check_bounds("batch", len(batch), 1, _BATCH_LENGTH)
    key = SessionKey(session.group_id, session.session_id)
    request = transactions.ReadStagedVerdictsRequest(
        transactional_id=_transactional_id(key),
        producer_id=session.epoch >> _EPOCH_BITS,
        producer_epoch=session.epoch & _EPOCH_MASK,
        batch=batch,
        settle=settle,
    )
    try:
        found = await read_staged_verdicts(gateway, request, deadline)
    except KafkaError as error:
        raise _told(error, key) from error
    pieces = [
        Piece(one.topic, one.partition, one.first_offset, one.last_offset, one.type) for one in found.verdicts
    ]
    return StagedBatch(pieces, found.settled)


def _told(error: KafkaError, key: SessionKey) -> KafkaError:
    if error.code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH, f"Session '{key.member_id}' was taken over by a newer driver."
        )
    if error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Session '{key.member_id}' was never opened under this epoch, or not for long: open it.",
        )
    return error


def _check(key: SessionKey) -> None:
    check_group_id(key.group_id)
    check_member_id(key.member_id, "session_id")


def _transactional_id(key: SessionKey) -> str:
    return f"{PREFIX}/{key.group_id}/{key.member_id}"
