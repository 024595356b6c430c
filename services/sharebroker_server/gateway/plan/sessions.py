"""Sessions of planned batches, and their fencing.

A session is fenced like a transactional producer, by the same records: opening it allocates a producer id and
epoch for a transactional id that contains its name. See services/decisions/0039.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import check_bounds, check_member_id
from sharebroker_server.gateway.plan.offset_ranges import TypedRange
from sharebroker_server.gateway.produce.transactions import (
    add_partitions_to_txn,
    init_producer_id,
    read_staged_verdicts,
    stage_verdicts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PREFIX: Final = "plan-session"
_EPOCH_BITS: Final = 16
_EPOCH_MASK: Final = (1 << _EPOCH_BITS) - 1
_TIMEOUT_MS: Final = 60_000
_BATCH_LENGTH: Final = 64


class StagedBatch(NamedTuple):
    """The verdicts staged for a batch; `applied`: an earlier call applied them."""

    pieces: Sequence[TypedRange] = ()
    applied: bool = False

    @property
    def pending(self) -> bool:
        """Whether there are verdicts to apply."""
        return bool(self.pieces) and not self.applied


async def open_session(gateway: Gateway, key: SessionKey, deadline: Deadline) -> int:
    """Takes a session over; returns its new epoch, durable. Raises KafkaError."""
    _check(key)
    request = transactions.InitProducerIdRequest(
        transactional_id=_transactional_id(key), transaction_timeout_ms=_TIMEOUT_MS
    )
    producer = await init_producer_id(gateway, request, deadline)
    return producer.producer_id << _EPOCH_BITS | producer.producer_epoch


async def session_key(
    gateway: Gateway, session: pb.PlanSession, principal: str, deadline: Deadline
) -> SessionKey:
    """The member id of a session.

    Raises FENCED_MEMBER_EPOCH for an older epoch; UNKNOWN_MEMBER_ID, also if another principal opened it.
    """
    key = key_of(session, principal)
    request = transactions.AddPartitionsToTxnRequest(
        **_producer(key, session.epoch),
        verify_only=True,
    )
    with _session_errors(key):
        await add_partitions_to_txn(gateway, request, deadline)
    return key


async def stage(
    gateway: Gateway,
    key: SessionKey,
    epoch: int,
    batch: str,
    pieces: Sequence[TypedRange],
    deadline: Deadline,
) -> None:
    """Stages verdicts until their batch is committed. Raises KafkaError."""
    check_bounds("batch", len(batch), 1, _BATCH_LENGTH)
    request = transactions.StageVerdictsRequest(
        **_producer(key, epoch),
        batch=batch,
        verdicts=(
            transactions.StagedVerdict(
                topic=piece.topic,
                partition=piece.partition,
                first_offset=piece.first,
                last_offset=piece.last,
                type=delivery.AcknowledgeType.ValueType(piece.kind),
            )
            for piece in pieces
        ),
    )
    with _session_errors(key):
        await stage_verdicts(gateway, request, deadline)


async def staged(
    gateway: Gateway,
    key: SessionKey,
    epoch: int,
    batch: str,
    deadline: Deadline,
    *,
    mark_reconciled: bool = False,
) -> StagedBatch:
    """The verdicts staged for a batch that has a name. Raises KafkaError.

    `mark_reconciled` stores that they were applied.
    """
    if not batch:
        return StagedBatch()
    check_bounds("batch", len(batch), 1, _BATCH_LENGTH)
    request = transactions.ReadStagedVerdictsRequest(
        **_producer(key, epoch),
        batch=batch,
        mark_reconciled=mark_reconciled,
    )
    with _session_errors(key):
        found = await read_staged_verdicts(gateway, request, deadline)
    pieces = [
        TypedRange(verdict.topic, verdict.partition, verdict.first_offset, verdict.last_offset, verdict.type)
        for verdict in found.verdicts
    ]
    return StagedBatch(pieces, found.reconciled)


@contextmanager
def _session_errors(key: SessionKey) -> Iterator[None]:
    """Replaces the errors of a fenced or unknown producer by those of its session."""
    try:
        yield
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH, f"Session '{key.member_id}' was taken over by a newer driver."
            ) from error
        if error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Session '{key.member_id}' was never opened with this epoch, or has expired: open it.",
            ) from error
        raise


def _check(key: SessionKey) -> None:
    check_group_id(key.group_id)
    check_member_id(key.member_id, "session_id")


def key_of(session: pb.PlanSession, principal: str) -> SessionKey:
    """The key of a principal's session. Raises INVALID_REQUEST, INVALID_GROUP_ID."""
    key = SessionKey(session.group_id, session.session_id, principal)
    _check(key)
    return key


def _producer(key: SessionKey, epoch: int) -> dict[str, Any]:
    """Returns the fields of the producer whose epoch fences the session."""
    return {
        "transactional_id": _transactional_id(key),
        "producer_id": epoch >> _EPOCH_BITS,
        "producer_epoch": epoch & _EPOCH_MASK,
    }


def _transactional_id(key: SessionKey) -> str:
    """Returns the id whose producer fences a session; it differs for each principal.

    Encoded principals contain no "/", and PREFIX alone is that of sessions of ANONYMOUS.
    """
    owner = f"@{quote(key.principal, safe='')}" if key.principal else ""
    return f"{PREFIX}{owner}/{key.group_id}/{key.member_id}"
