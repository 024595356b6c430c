"""Sessions of planned batches: who may speak for one.

A session is fenced as a transactional producer is, and by the same records: opening it takes a producer id
and epoch for a transactional id made of its name. See services/decisions/0039.
"""

from __future__ import annotations

from typing import Final

from libs.catalog.names import check_group_id
from services.gateway.clients.deadline import Deadline
from services.gateway.core.validation import check_member_id
from services.gateway.core.values import SessionKey
from services.gateway.service.gateway import Gateway
from services.gateway.service.transactions import add_partitions_to_txn, init_producer_id
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1 import plan_pb2 as pb
from sharebroker.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions

PREFIX: Final = "plan-session"
_EPOCH_BITS: Final = 16
_TIMEOUT_MS: Final = 60_000


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
        producer_epoch=session.epoch & ((1 << _EPOCH_BITS) - 1),
        verify_only=True,
    )
    try:
        await add_partitions_to_txn(gateway, request, deadline)
    except KafkaError as error:
        raise _told(error, key) from error
    return key


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
