"""ShareFetch: a session's fetch from all leaders, with the acknowledgements in the same request.

The order within a request: open or advance the session; wait at the session's watch, if nothing changed since
the last fetch without records; apply the acknowledgements, which make room for records; acquire; select the
partitions to report; close the session, or start a watch if there were no records.

`MultiLeaderFetch` fetches from the leaders of all partitions as one call. With one leader, the leader does
the long poll. With several, each is called in turn without a wait, until one has records. Between two rounds
the fetch waits for a records-available notification of any leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from sharebroker_protocol.clock import Deadline, monotonic, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_server.gateway.authorization import Caller
from sharebroker_server.gateway.clients import Leaders, Routes, failed, moved, unbind
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import FetchContext, SessionKey, begin_fetch, shown_error
from sharebroker_server.gateway.core.validation import MAX_WAIT, check_bounds, check_renewing_fetch
from sharebroker_server.gateway.share.acknowledge import PORTION, AckResults, Acks, acknowledge_in_session
from sharebroker_server.gateway.share.session_end import close_session
from sharebroker_server.leader_calls.values import AcquireCall, AcquireResult

MOVED_WAIT: Final = 0.05
"""Limit of the wait for records of a session with partitions that another broker leads."""

POLL_INTERVAL: Final = 0.05
"""Shortest interval in seconds between two rounds of a fetch that found no records."""

_NO_RESULT: Final = AcquireResult("", 0)
_NONE: Final[dict[TopicIdPartition, AcquireResult]] = {}


class ShareFetch(NamedTuple):
    """A ShareFetch request. `acks` has every partition that it names, with its acknowledgements.

    `first_loaded`: if share-partitions must be loaded first, the fetch returns as soon as the first one has
    `min_bytes`; the next fetch returns the others (as Kafka; librdkafka's tests depend on it).
    `lock` is the length of the locks in seconds; 0: the group's.
    """

    caller: Caller
    key: SessionKey
    epoch: int
    acks: Acks
    forgotten: Sequence[TopicIdPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int = 0
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    renews: bool = False
    first_loaded: bool = False
    lock: float = 0.0
    client_id: str = ""

    @property
    def fetches(self) -> bool:
        """Whether the request can return records."""
        return self.max_records > 0 and self.max_bytes > 0 and not self.renews

    @property
    def wait(self) -> float:
        """The longest wait for records, in seconds."""
        return seconds_of(self.max_wait_ms)


class FetchedPartition(NamedTuple):
    """One partition of the response: the acquired records, and the error of its acknowledgements."""

    partition: TopicIdPartition
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()
    acknowledge_error: KafkaError | None = None


def seconds_of(max_wait_ms: int) -> float:
    """The longest wait of a fetch with this `max_wait_ms`, in seconds."""
    return min(max_wait_ms / 1000, MAX_WAIT)


async def share_fetch(gateway: Gateway, request: ShareFetch, deadline: Deadline) -> list[FetchedPartition]:
    """Serves a ShareFetch; returns the partitions of the response. Raises KafkaError."""
    counts, begun, wait = gateway.fetches, monotonic(), request.wait
    counts.in_flight += 1
    try:
        gateway.sessions.check(request.key)
        _check(request)
        context = await _begin(gateway, request)
        session, many = context.session, len(context.partitions) > PORTION
        if session.watch is not None:
            if await _wait_unchanged(context, request):
                counts.completed(False, monotonic() - begun, wait)
                return []
            session.end_watch()
            request = request._replace(max_wait_ms=max(0, int((begun + wait - monotonic()) * 1000)))
        acknowledged: AckResults = {}
        if any(request.acks.values()):
            acks = {part: batches for part, batches in request.acks.items() if batches}
            acknowledged = await acknowledge_in_session(
                gateway, session, request.caller, acks, deadline, renew_allowed=request.renews
            )
        results: Mapping[TopicIdPartition, AcquireResult] = {}
        if context.partitions and request.fetches:
            if many:
                await gateway.turns.next()
            results = await _acquire(gateway, context, request)
            if many:
                await gateway.turns.next()
        fetched = _reported(context, results, acknowledged)
        if many:
            await gateway.turns.next()
        if context.final:
            close_session(gateway, session)
        elif not fetched and request.fetches:
            await _start_watch(gateway, context, request)
    finally:
        counts.in_flight -= 1
    if request.fetches:
        counts.completed(any(part.acquired for part in fetched), monotonic() - begun, wait)
    return fetched


def _check(request: ShareFetch) -> None:
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
    connection = request.caller.connection
    try:
        return begin_fetch(
            gateway.sessions, request.key, request.epoch, connection, request.acks, request.forgotten, now()
        )
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(request.wait)  # the client would retry at once
        raise


async def _wait_unchanged(context: FetchContext, request: ShareFetch) -> bool:
    """Whether the watch of the session's partitions reports no records until the request's time ends.

    Raises KafkaError as `FetchContext.check_turn`.
    """
    session = context.session
    same = not request.acks and not request.forgotten and session.watch_caller == request.caller
    if session.watch is None or not same or context.final or not request.fetches:
        return False
    if not request.caller.may_read({part.topic_id for part in session.partitions}):
        return False
    if await session.watch.changes(request.wait):
        return False
    context.check_turn()
    return True


async def _start_watch(gateway: Gateway, context: FetchContext, request: ShareFetch) -> None:
    """Watches the partitions of an idle client, which repeats its fetch."""
    session = context.session
    if session.partitions and not session.known_errors():
        watch = await gateway.leaders.watch(request.key.group_id, list(session.partitions))
        if watch is not None and gateway.sessions.is_current(context):
            session.watch, session.watch_caller = watch, request.caller
        elif watch is not None:  # the session ended, or has a later request
            watch.end()


def _acquire(
    gateway: Gateway, context: FetchContext, request: ShareFetch
) -> Coroutine[Any, Any, Mapping[TopicIdPartition, AcquireResult]]:
    """Acquires records; a permission that is revoked meanwhile ends the wait.

    Without the permission for a topic the results are the errors of its partitions. Raises
    GROUP_AUTHORIZATION_FAILED.
    """
    call, errors, known_errors = _acquire_call(gateway, context, request)
    work = MultiLeaderFetch(gateway.leaders, call, known_errors, context.session.routes, errors).run()
    caller = request.caller
    if caller.rights.unrestricted:
        return work

    def check() -> None:
        caller.require_read(request.key.group_id, {part.topic_id for part in call.partitions})

    def denied(error: KafkaError) -> Mapping[TopicIdPartition, AcquireResult]:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise error
        return _acquire_call(gateway, context, request)[1]

    return gateway.rechecks.run(check, work, denied)


def _acquire_call(
    gateway: Gateway, context: FetchContext, request: ShareFetch
) -> tuple[AcquireCall, dict[TopicIdPartition, AcquireResult], set[TopicIdPartition]]:
    """The call for the valid partitions, the errors of the others, and the partitions with known errors.

    An error that the client received before does not end its wait: the client would only repeat the fetch.
    """
    errors = {
        part: AcquireResult(*part, code)
        for part, code in request.caller.partition_errors(context.partitions, forwards=False).items()
    }
    known_errors = context.session.known_errors()
    call = AcquireCall(
        request.key.group_id,
        request.key.member_id,
        [part for part in context.partitions if part not in errors] if errors else context.partitions,
        _wait(request.wait, errors.values()) if known_errors.issuperset(errors) else 0.0,
        request.max_records,
        request.min_bytes if request.first_loaded or request.min_bytes > 1 else 0,
        min(request.max_bytes, gateway.config.fetch_max_bytes),
        request.batch_size,
        request.mode,
        with_markers=True,
        session_id=context.session.id,
        lock=request.lock,
        principal=request.key.principal,
        client_id=request.client_id,
    )
    return call, errors, known_errors


def _wait(wait: float, errors: Iterable[AcquireResult]) -> float:
    """Seconds to wait for records when other partitions have errors.

    The wait is short if another broker leads one of them: librdkafka sends requests to one broker at a time,
    and may have found that broker meanwhile.
    """
    if any(result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for result in errors):
        return min(wait, MOVED_WAIT)
    return wait


def _reported(
    context: FetchContext, results: Mapping[TopicIdPartition, AcquireResult], acknowledged: AckResults
) -> list[FetchedPartition]:
    reported = context.reported(results)
    fetched = [_fetched(part, results.get(part, _NO_RESULT), acknowledged.get(part)) for part in reported]
    if acknowledged:
        listed = set(reported)
        for part, error in acknowledged.items():
            if part not in listed:
                fetched.append(FetchedPartition(part, acknowledge_error=error))
    return fetched


def _fetched(
    part: TopicIdPartition, result: AcquireResult, acknowledge_error: KafkaError | None
) -> FetchedPartition:
    return FetchedPartition(
        part,
        shown_error(result.error_code),
        result.error_message,
        result.records,
        result.acquired,
        acknowledge_error,
    )


class MultiLeaderFetch:
    """One fetch of a member. Errors of partitions in `known_errors` do not end its wait.

    `refused` are results of other partitions, which `run` returns as well.
    """

    __slots__ = (
        "_bytes",
        "_call",
        "_deadline",
        "_known_errors",
        "_leaders",
        "_records",
        "_refused",
        "_results",
        "_routes",
    )

    def __init__(
        self,
        leaders: Leaders,
        call: AcquireCall,
        known_errors: Set[TopicIdPartition] = frozenset(),
        routes: Routes | None = None,
        refused: dict[TopicIdPartition, AcquireResult] = _NONE,
    ) -> None:
        self._leaders = leaders
        self._call = call
        self._known_errors = known_errors
        self._routes = routes
        self._refused = refused
        self._deadline = Deadline(call.max_wait)
        self._records = 0
        self._bytes = 0
        self._results: dict[TopicIdPartition, AcquireResult] = {}

    async def run(self) -> dict[TopicIdPartition, AcquireResult]:
        """One result per partition of the call, records, an error, or nothing; and those refused."""
        call = self._call
        while True:
            peers, unled = await self._leaders.by_leader(call.partitions, self._routes)
            for part in unled:
                self._add(failed(AcquireResult, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)))
            wait = self._deadline.remaining() if len(peers) == 1 and not unled else 0.0
            for peer, parts in peers:
                if self._records >= call.max_records or self._bytes >= call.max_bytes > 0:
                    break
                try:
                    for result in await peer.calls.acquire(self._remainder(parts, wait)):
                        self._add(result)
                except KafkaError as error:
                    self._add_failure(parts, error)
            remaining = self._deadline.remaining()
            if self._records or remaining <= 0 or self._has_new_error():
                return self._results | self._refused
            await self._pause(remaining)

    async def _pause(self, remaining: float) -> None:
        """Waits for a records-available notification, but at least `POLL_INTERVAL`.

        Other members may acquire the records first, and the fetch must not spin.
        """
        partitions = self._call.partitions
        # No watch for a wait that ends sooner, or while a partition has an error.
        watches = remaining > POLL_INTERVAL and not any(r.error_code for r in self._results.values())
        watch = await self._leaders.watch(self._call.group_id, partitions) if watches else None
        try:
            await asyncio.sleep(min(remaining, POLL_INTERVAL) if partitions else remaining)
            if watch is not None:
                await watch.changes(self._deadline.remaining())
        finally:
            if watch is not None:
                watch.end()

    def _remainder(self, parts: Sequence[TopicIdPartition], wait: float) -> AcquireCall:
        call = self._call
        return call._replace(
            partitions=parts,
            max_wait=wait,
            max_records=call.max_records - self._records,
            max_bytes=max(1, call.max_bytes - self._bytes) if call.max_bytes else 0,
        )

    def _add(self, result: AcquireResult) -> None:
        partition = TopicIdPartition(result.topic_id, result.partition)
        self._results[partition] = result
        if result.acquired:
            self._records += sum(run.last - run.first + 1 for run in result.acquired)
            self._bytes += len(result.records)
        elif moved(result):
            self._leaders.forget(partition, self._routes)

    def _add_failure(self, parts: Sequence[TopicIdPartition], error: KafkaError) -> None:
        unbind(self._routes, parts)
        if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the process died
            error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        for part in parts:
            self._add(failed(AcquireResult, part, error))

    def _has_new_error(self) -> bool:
        """Whether there is an error that waiting does not resolve and that was not reported before."""
        return any(
            result.error_code and not moved(result) and part not in self._known_errors
            for part, result in self._results.items()
        )
