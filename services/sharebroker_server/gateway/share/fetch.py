"""ShareFetch: a session's fetch over all leaders, with the acknowledgements that ride on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sharebroker_protocol.clock import monotonic, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import MAX_WAIT, MOVED_WAIT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.fetch import (
    FetchContext,
    FetchIntent,
    PartitionOutcome,
    begin_fetch,
    shown_error,
)
from sharebroker_server.gateway.core.validation import (
    check_bounds,
    check_member_id,
    check_renewing_fetch,
)
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.share.acknowledge import (
    AckResults,
    Caller,
    acknowledge,
    close_session,
    partition_error,
)
from sharebroker_server.gateway.share.multi_leader_fetch import MemberFetch
from sharebroker_server.share_calls.values import AcquireCall, Acquisition, Watch


class ShareFetch(NamedTuple):
    """A ShareFetch request. `asked` is every partition it names, with its acknowledgements.

    `first_loaded`: where share-partitions have to be loaded, the first with `min_bytes` is the answer. So it
    is at a Kafka, whose next answer has the others, and librdkafka's own tests count on it.
    """

    caller: Caller
    key: SessionKey
    epoch: int
    asked: Mapping[TopicIdPartition, Sequence[AckBatch]]
    forgotten: Sequence[TopicIdPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int = 0
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    renews: bool = False
    first_loaded: bool = False

    @property
    def fetches(self) -> bool:
        """Whether it asks for records at all."""
        return self.max_records > 0 and self.max_bytes > 0 and not self.renews

    @property
    def wait(self) -> float:
        """Seconds for which records are waited for."""
        return seconds_of(self.max_wait_ms)


class Fetched(NamedTuple):
    """One partition of the answer: what was acquired, and what became of its acknowledgements."""

    partition: TopicIdPartition
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()
    acknowledge_error: KafkaError | None = None


def seconds_of(max_wait_ms: int) -> float:
    """How long a fetch that asks for so much waits at most."""
    return min(max_wait_ms / 1000, MAX_WAIT)


async def share_fetch(gateway: Gateway, request: ShareFetch, deadline: Deadline) -> list[Fetched]:
    """Serve a ShareFetch. Raises KafkaError for a refused request."""
    counts, begun = gateway.fetches, monotonic()
    counts.under_way += 1
    try:
        fetched = await _serve(gateway, request, deadline)
    finally:
        counts.under_way -= 1
    if request.fetches:
        counts.answered(any(one.acquired for one in fetched), monotonic() - begun, request.wait)
    return fetched


async def _serve(gateway: Gateway, request: ShareFetch, deadline: Deadline) -> list[Fetched]:
    _check(request)
    context = await _begin(gateway, request)
    if context.session.watch is not None:
        waited = Deadline(request.wait)
        if await _stays_quiet(context, context.session.watch, request):
            return []
        context.session.end_watch()
        request = request._replace(max_wait_ms=int(waited.left() * 1000))
    acknowledged = await acknowledge(
        gateway,
        request.caller,
        request.key,
        {part: batches for part, batches in request.asked.items() if batches},
        deadline,
        renew_allowed=request.renews,
    )
    fetched = _fetched(context, await _fetch(gateway, context, request), acknowledged)
    if context.final:
        close_session(gateway, context.session)
    elif not fetched and request.fetches:
        _watch(gateway, context, request)
    return fetched


async def _stays_quiet(context: FetchContext, watch: Watch, request: ShareFetch) -> bool:
    """Whether the session's partitions have nothing until the request's time is up, as their watch can tell.

    Raises KafkaError as `FetchContext.reported`.
    """
    same = not request.asked and not request.forgotten and context.session.watched_for == request.caller
    if not same or context.final or not request.fetches or await watch.changes(request.wait):
        return False
    context.reported(())
    return True


def _watch(gateway: Gateway, context: FetchContext, request: ShareFetch) -> None:
    """Has partitions that have nothing watched: an idle client asks for them again and again."""
    session = context.session
    if session.partitions and not session.told():
        session.watch = gateway.leaders.watch(request.key.group_id, list(session.partitions))
        session.watched_for = request.caller


def _check(request: ShareFetch) -> None:
    check_group_id(request.key.group_id)
    check_member_id(request.key.member_id)
    check_bounds("max_wait_ms", request.max_wait_ms, 0, 2**31 - 1)
    check_bounds("max_records", request.max_records, 0, 2**31 - 1)
    if request.renews:
        check_renewing_fetch(
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            max_records=request.max_records,
        )


async def _begin(gateway: Gateway, request: ShareFetch) -> FetchContext:
    intent = FetchIntent(
        request.key,
        request.epoch,
        request.caller.connection,
        wanted=tuple(request.asked),
        forgotten=request.forgotten,
        acknowledges=any(request.asked.values()),
    )
    try:
        return begin_fetch(gateway.sessions, intent, now())
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(request.wait)  # a client that tries at once would only spin
        raise


async def _fetch(
    gateway: Gateway, context: FetchContext, request: ShareFetch
) -> Mapping[TopicIdPartition, Acquisition]:
    """What partitions of the session give.

    An error that the client knows of does not end its wait: it would only ask again at once.
    """
    if not context.partitions or not request.fetches:
        return {}
    unknown = {
        part: Acquisition(*part, code)
        for part in context.partitions
        if (code := partition_error(gateway, request.caller, part))
    }
    told = context.session.told()
    call = AcquireCall(
        *request.key,
        [part for part in context.partitions if part not in unknown] if unknown else context.partitions,
        _wait(request.wait, unknown.values()) if told.issuperset(unknown) else 0.0,
        request.max_records,
        request.min_bytes if request.first_loaded or request.min_bytes > 1 else 0,
        min(request.max_bytes, gateway.config.fetch_max_bytes),
        request.batch_size,
        request.mode,
        with_markers=True,
        session_id=context.session.id,
    )
    return await MemberFetch(gateway.leaders, call, told).run() | unknown


def _wait(wait: float, errors: Iterable[Acquisition]) -> float:
    """Seconds to wait for records beside partitions that have errors.

    Where one is led elsewhere not for long: librdkafka asks one broker at a time, and may know the new one by
    now.
    """
    if any(one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for one in errors):
        return min(wait, MOVED_WAIT)
    return wait


def _fetched(
    context: FetchContext, answers: Mapping[TopicIdPartition, Acquisition], acknowledged: AckResults
) -> list[Fetched]:
    outcomes = [_outcome(part, answers.get(part)) for part in context.partitions]
    reported = context.reported(outcomes)
    fetched = [_one(part, answers.get(part), acknowledged.get(part)) for part in reported]
    told = set(reported)
    return fetched + [
        Fetched(part, acknowledge_error=error) for part, error in acknowledged.items() if part not in told
    ]


def _outcome(part: TopicIdPartition, answer: Acquisition | None) -> PartitionOutcome:
    if answer is None:
        return PartitionOutcome(part, False)
    return PartitionOutcome(part, bool(answer.acquired), ErrorCode(answer.error_code))


def _one(part: TopicIdPartition, answer: Acquisition | None, acknowledge_error: KafkaError | None) -> Fetched:
    if answer is None:
        return Fetched(part, acknowledge_error=acknowledge_error)
    return Fetched(
        part,
        shown_error(answer.error_code),
        answer.error_message,
        answer.records,
        answer.acquired,
        acknowledge_error,
    )
