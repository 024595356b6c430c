"""ShareAcknowledge, and what it shares with ShareFetch: acknowledgements of a session, and the session's end.

A session ends when a request closes it, when its connection closes, or when `SessionReaper` evicts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import Session, SessionKey, begin_acknowledge
from sharebroker_server.gateway.core.validation import batches_refusal, check_member_id
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AckResult

_LONGEST_PAUSE: Final = 30.0
"""Maximum seconds between two searches for idle sessions."""

AckResults = Mapping[TopicIdPartition, KafkaError | None]
Acks = Mapping[TopicIdPartition, Sequence[AckBatch]]


class Caller(NamedTuple):
    """The connection of a request, and the partitions that it may name there (`serves` None: all).

    A broker that is `leaving` serves no partition, but forwards acknowledgements of records that were fetched
    from this broker; clients send them nowhere else.
    """

    connection: str
    serves: Callable[[str, int], bool] | None = None
    leaving: bool = False


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledge request."""

    caller: Caller
    key: SessionKey
    epoch: int
    acks: Acks
    renews: bool = False


async def share_acknowledge(gateway: Gateway, request: ShareAcknowledge, deadline: Deadline) -> AckResults:
    """Serves a ShareAcknowledge; returns the durable outcome of each partition. Raises KafkaError."""
    check_group_id(request.key.group_id)
    check_member_id(request.key.member_id)
    context = begin_acknowledge(gateway.sessions, request.key, request.epoch, now())
    call, results = checked(gateway, request.caller, request.key, request.acks, renew_allowed=request.renews)
    if call.parts:
        add_errors(results, await gateway.leaders.acknowledge(call, deadline, context.session.routes))
    if context.final:
        close_session(gateway, context.session)
    return results


def checked(
    gateway: Gateway, caller: Caller, key: SessionKey, acks: Acks, *, renew_allowed: bool
) -> tuple[AcknowledgeCall, dict[TopicIdPartition, KafkaError | None]]:
    """Returns the call for the valid partitions, and one result per partition.

    A result is the partition's error, or None, which `add_errors` may replace.
    """
    results: dict[TopicIdPartition, KafkaError | None] = {}
    parts = []
    for part, batches in acks.items():
        problem = batches_refusal(batches, renew_allowed=renew_allowed)
        if problem is not None:
            results[part] = KafkaError(ErrorCode.INVALID_REQUEST, problem)
            continue
        code = gateway.partition_error(*part, None if caller.leaving else caller.serves)
        results[part] = KafkaError(code) if code else None
        if batches and not code:
            parts.append(AckPart(*part, batches))
    return AcknowledgeCall(key.group_id, key.member_id, parts, renew_allowed), results


def add_errors(results: dict[TopicIdPartition, KafkaError | None], outcomes: Sequence[AckResult]) -> None:
    """Adds the errors that leaders returned."""
    for topic_id, partition, code, message in outcomes:
        if code:
            results[TopicIdPartition(topic_id, partition)] = KafkaError(code, message)


def close_session(gateway: Gateway, session: Session) -> None:
    """Removes the session and releases its records.

    Does nothing if a newer session has replaced it.
    """
    if gateway.sessions.close(session):
        release_session_records(gateway, session)


def release_session_records(gateway: Gateway, session: Session) -> None:
    """Releases the records of a removed session, in the background."""
    partitions = session.forgotten.union(session.partitions)
    release = gateway.leaders.release(*session.key, partitions, session.id)
    gateway.background(release, "share session release failed")


class SessionReaper:
    """Evicts a session `connections.max.idle.ms` after its last request, or up to a tenth of that later."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._idle = gateway.config.connections_max_idle_ms / 1000
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task; does nothing if connections may be idle indefinitely (-1)."""
        if self._idle > 0:
            self._task = asyncio.create_task(self._run(), name="share session reaper")

    async def stop(self) -> None:
        """Ends the task."""
        if self._task is not None:
            await end([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(max(self._idle / 10, 0.1), _LONGEST_PAUSE))
            for session in self._gateway.sessions.expire(now() - self._idle):
                release_session_records(self._gateway, session)
