"""ShareAcknowledge, and the acknowledgements that a ShareFetch carries."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.authorization import Caller
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey, ShareSession, begin_acknowledge
from sharebroker_server.gateway.core.validation import batches_refusal
from sharebroker_server.gateway.share.session_end import close_session
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AckResult

AckResults = Mapping[TopicIdPartition, KafkaError | None]
Acks = Mapping[TopicIdPartition, Sequence[AckBatch]]


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledge request."""

    caller: Caller
    key: SessionKey
    epoch: int
    acks: Acks
    renews: bool = False


PORTION: Final = 500
"""Partitions of a request whose acknowledgements are checked and sent in one turn of the event loop."""


def share_acknowledge(
    gateway: Gateway, request: ShareAcknowledge, deadline: Deadline
) -> Coroutine[Any, Any, AckResults]:
    """Serves a ShareAcknowledge; returns the durable outcome of each partition. Raises KafkaError."""
    gateway.sessions.check(request.key)
    context = begin_acknowledge(gateway.sessions, request.key, request.epoch, now())
    return acknowledge_in_session(
        gateway,
        context.session,
        request.caller,
        request.acks,
        deadline,
        renew_allowed=request.renews,
        final=context.final,
    )


async def acknowledge_in_session(
    gateway: Gateway,
    session: ShareSession,
    caller: Caller,
    acks: Acks,
    deadline: Deadline,
    *,
    renew_allowed: bool,
    final: bool = False,
) -> AckResults:
    """Returns the durable outcome of the acknowledgements of each partition, of PORTION at once.

    Closes the session after the `final` ones.
    """
    results: dict[TopicIdPartition, KafkaError | None] = {}
    portions: Iterable[Acks] = (acks,)
    if len(acks) > PORTION:
        items = iter(acks.items())
        portions = iter(lambda: dict(islice(items, PORTION)), {})
    for portion in portions:
        call, found = checked(caller, session.key, portion, renew_allowed=renew_allowed)
        if call.parts:
            add_errors(found, await gateway.leaders.acknowledge(call, deadline, session.routes))
        results |= found
        if portion is not acks:
            await gateway.turns.next()
    if final:
        close_session(gateway, session)
    return results


def checked(
    caller: Caller, key: SessionKey, acks: Acks, *, renew_allowed: bool
) -> tuple[AcknowledgeCall, dict[TopicIdPartition, KafkaError | None]]:
    """Returns the call for the valid partitions, and one result per partition.

    A result is the partition's error, or None, which `add_errors` may replace.
    """
    results: dict[TopicIdPartition, KafkaError | None] = {}
    parts, errors = [], caller.partition_errors(acks, forwards=caller.leaving)
    for part, batches in acks.items():
        problem = batches_refusal(batches, renew_allowed=renew_allowed)
        if problem is not None:
            results[part] = KafkaError(ErrorCode.INVALID_REQUEST, problem)
            continue
        code = errors.get(part)
        results[part] = None if code is None else KafkaError(code)
        if batches and code is None:
            parts.append(AckPart(*part, batches))
    call = AcknowledgeCall(key.group_id, key.member_id, parts, renew_allowed, key.principal)
    return call, results


def add_errors(results: dict[TopicIdPartition, KafkaError | None], outcomes: Sequence[AckResult]) -> None:
    """Adds the errors that leaders returned."""
    for topic_id, partition, code, message in outcomes:
        if code:
            results[TopicIdPartition(topic_id, partition)] = KafkaError(code, message)
