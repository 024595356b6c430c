"""ShareAcknowledge, and what it shares with ShareFetch: acknowledgements of a session, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.fetch import begin_acknowledge
from sharebroker_server.gateway.core.sessions import Session
from sharebroker_server.gateway.core.validation import batches_refusal, check_member_id
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.share_calls.values import AcknowledgeCall, AckPart

AckResults = Mapping[TopicIdPartition, KafkaError | None]


class Caller(NamedTuple):
    """Where a request came in: its connection, and whether partitions are served there (None: all are).

    A broker that is `leaving` serves none any more, and passes answers on for what was fetched there: clients
    cannot give them elsewhere.
    """

    connection: str
    serves: Callable[[str, int], bool] | None = None
    leaving: bool = False


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledge request."""

    caller: Caller
    key: SessionKey
    epoch: int
    asked: Mapping[TopicIdPartition, Sequence[AckBatch]]
    renews: bool = False


async def share_acknowledge(gateway: Gateway, request: ShareAcknowledge, deadline: Deadline) -> AckResults:
    """Serve a ShareAcknowledge. Raises KafkaError for a refused request."""
    check_group_id(request.key.group_id)
    check_member_id(request.key.member_id)
    context = begin_acknowledge(gateway.sessions, request.key, request.epoch, now())
    results = await acknowledge(
        gateway, request.caller, request.key, request.asked, deadline, renew_allowed=request.renews
    )
    if context.final:
        close_session(gateway, context.session)
    return results


async def acknowledge(
    gateway: Gateway,
    caller: Caller,
    key: SessionKey,
    asked: Mapping[TopicIdPartition, Sequence[AckBatch]],
    deadline: Deadline,
    *,
    renew_allowed: bool,
) -> AckResults:
    """Check and apply the batches of each partition, all or nothing; the outcome of each, durable."""
    results = {
        part: _refusal(gateway, caller, part, batches, renew_allowed=renew_allowed)
        for part, batches in asked.items()
    }
    parts = [AckPart(*part, batches) for part, batches in asked.items() if batches and results[part] is None]
    call = AcknowledgeCall(key.group_id, key.member_id, parts, renew_allowed)
    for one in await gateway.leaders.acknowledge(call, deadline):
        if one.error_code:
            error = KafkaError(ErrorCode(one.error_code), one.error_message)
            results[TopicIdPartition(one.topic_id, one.partition)] = error
    return results


def close_session(gateway: Gateway, session: Session) -> None:
    """Remove the session and `end_session`; one that was replaced meanwhile goes on as the other."""
    if gateway.sessions.close(session):
        end_session(gateway, session)


def end_session(gateway: Gateway, session: Session) -> None:
    """The session was removed: leaders release what it acquired, and nobody waits for that."""
    gateway.background(_release(gateway, session), "could not release the records of a session")


async def _release(gateway: Gateway, session: Session) -> None:
    parts = [
        delivery.TopicPartition(topic_id=p.topic_id, partition=p.partition)
        for p in session.left.union(session.partitions)
    ]
    peers, _ = await gateway.leaders.by_leader(parts)
    for peer, some in peers:
        request = leader.ReleaseMemberRequest(
            group_id=session.key.group_id,
            member_id=session.key.member_id,
            partitions=some,
            session_id=session.id,
        )
        await peer.stub.ReleaseMember(request, timeout=REQUEST_TIMEOUT)


def partition_error(gateway: Gateway, caller: Caller, part: TopicIdPartition) -> ErrorCode:
    """NONE where the caller may ask for the partition here, else what Kafka answers for it."""
    code = gateway.partition_error(*part)
    if code is ErrorCode.NONE and caller.serves is not None and not caller.serves(*part):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _refusal(
    gateway: Gateway,
    caller: Caller,
    part: TopicIdPartition,
    batches: Sequence[AckBatch],
    *,
    renew_allowed: bool,
) -> KafkaError | None:
    problem = batches_refusal(batches, renew_allowed=renew_allowed)
    if problem is not None:
        return KafkaError(ErrorCode.INVALID_REQUEST, problem)
    code = gateway.partition_error(*part) if caller.leaving else partition_error(gateway, caller, part)
    return KafkaError(code) if code else None
