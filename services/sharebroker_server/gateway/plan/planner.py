"""Planned batches: commits the open batch of a session, plans the next one, renews and releases locks.

Every call that commits works in this order: read the staged verdicts of the batch; reconcile the records with
the commit and the verdicts; mark the staged verdicts as applied; only then plan the next batch. A driver that
repeats a call after a failure gets the same batch: what the session holds is stored at the leaders alone.

`SessionReconciliation` reconciles the records at all their leaders, with retries. A leader may leave offsets
unchanged. Pending ones (an earlier state write of the same session is not durable yet) are sent again; the
others are reported to the driver with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AckBatch
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT, Backoff, error_of
from sharebroker_server.gateway.consume.topic_acquire import (
    NO_STATE,
    AcquireLimits,
    TopicAcquire,
    TopicFilter,
    parts_of,
)
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import MAX_WAIT, check_bounds, check_topic_names
from sharebroker_server.gateway.plan.offset_ranges import (
    RENEW,
    Held,
    Partition,
    TypedRange,
    by_partition,
    column_pieces,
    committed_pieces,
    held_of,
    piece_of,
    plan_range,
    planned_columns,
    planned_ranges,
    verdict_pieces,
    with_staged,
    within,
)
from sharebroker_server.gateway.plan.sessions import key_of, open_session, session_key, stage, staged
from sharebroker_server.leader_calls.values import (
    AckPart,
    LeaderCalls,
    ReconcileCall,
    ReconcileResult,
    UnreconciledReason,
)

MAX_PLAN_RECORDS: Final = 1_000_000

MAX_PLAN_RANGES: Final = 100_000
"""Limit of the ranges that one call may commit or renew."""

MAX_STAGED_RANGES: Final = 20_000
"""Limit of the ranges that one call may stage; the transaction coordinator stores no more for a batch."""


class Planner:
    """Serves sessions without state of its own: the leaders store what a session holds.

    A session belongs to the principal that opened it.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._acquire = TopicAcquire(gateway)

    async def open_session(
        self, request: pb.OpenSessionRequest, principal: str, deadline: Deadline
    ) -> pb.OpenSessionResponse:
        """Opens a session, which fences an older one of the same name. Raises KafkaError."""
        key = SessionKey(request.group_id, request.session_id, principal)
        epoch = await open_session(self._gateway, key, deadline)
        lock_duration_ms = self._gateway.catalog.lock_timeout_ms(request.group_id)
        return pb.OpenSessionResponse(epoch=epoch, lock_duration_ms=lock_duration_ms)

    async def plan(self, request: pb.PlanRequest, principal: str, deadline: Deadline) -> pb.PlanResponse:
        """Commits, then returns the open batch or plans a new one. Raises KafkaError."""
        topics = self._topics([(topic.name, topic.partitions) for topic in request.topics])
        check_bounds("max_records", request.max_records, 1, MAX_PLAN_RECORDS)
        check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))
        verdicts = by_partition(committed_pieces(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, principal, deadline)
        everything = [(topic, ()) for topic, _ in topics]
        await self._acquire.ensure(key.group_id, everything, deadline)
        left, held, repeated = await self._commit(request, key, everything, verdicts, deadline)
        if not any(held.values()):
            limits = AcquireLimits(request.max_records, request.max_wait_ms / 1000, without_records=True)
            held = held_of(topics, await self._acquire.acquire(key, topics, limits, deadline))
        if request.by_columns:
            return pb.PlanResponse(columns=planned_columns(held), left=left, repeated=repeated)
        return pb.PlanResponse(ranges=planned_ranges(held), left=left, repeated=repeated)

    async def commit(
        self, request: pb.CommitRequest, principal: str, deadline: Deadline
    ) -> pb.CommitResponse:
        """Commits a batch. Raises KafkaError."""
        verdicts = by_partition(committed_pieces(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, principal, deadline)
        left, _, repeated = await self._commit(request, key, [], verdicts, deadline)
        return pb.CommitResponse(left=left, repeated=repeated)

    async def stage(self, request: pb.StageRequest, principal: str, deadline: Deadline) -> pb.StageResponse:
        """Stages verdicts until the batch is committed. Raises KafkaError."""
        verdicts = by_partition(verdict_pieces(request.verdicts, "verdicts"), "verdicts", MAX_STAGED_RANGES)
        pieces = [piece for of_partition in verdicts.values() for piece in of_partition]
        key = key_of(request.session, principal)
        await stage(self._gateway, key, request.session.epoch, request.batch, pieces, deadline)
        return pb.StageResponse()

    async def renew(self, request: pb.RenewRequest, principal: str, deadline: Deadline) -> pb.RenewResponse:
        """Renews the held locks, and acquires lost ones again. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        pieces = [piece_of(span, RENEW) for span in request.ranges]
        pieces += column_pieces(request.columns, "columns", RENEW)
        pending = by_partition(pieces, "ranges", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, principal, deadline)
        left, held, _ = await self._reconcile(key, topics, pending, deadline, renew=True)
        deadline_at = min((run.deadline for runs in held.values() for run in runs), default=0.0)
        return pb.RenewResponse(left=left, lock_deadline_ms=round(deadline_at * 1000))

    async def release(
        self, request: pb.ReleaseRequest, principal: str, deadline: Deadline
    ) -> pb.ReleaseResponse:
        """Releases all held records. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        key = await session_key(self._gateway, request.session, principal, deadline)
        timeout = min(deadline.remaining(), REQUEST_TIMEOUT)
        await self._gateway.leaders.release(*key, parts_of(topics), timeout=timeout)
        return pb.ReleaseResponse()

    def _topics(self, filters: Sequence[tuple[str, Sequence[int]]]) -> TopicFilter:
        names = [name for name, _ in filters]
        if not names or len(set(names)) != len(names):
            raise invalid_field("topics", "At least one topic is needed, each once.")
        check_topic_names("topics", names)
        found = [(self._gateway.topic(name), list(partitions)) for name, partitions in filters]
        for topic, partitions in found:
            for partition in partitions:
                check_bounds("topics.partitions", partition, 0, topic.partitions - 1)
        return found

    async def _commit(
        self,
        request: pb.PlanRequest | pb.CommitRequest,
        key: SessionKey,
        topics: TopicFilter,
        pieces: Mapping[Partition, Sequence[TypedRange]],
        deadline: Deadline,
    ) -> PlanOutcome:
        """Reconciles the committed records and applies the staged verdicts. Raises KafkaError."""
        verdicts = await staged(
            self._gateway, key, request.session.epoch, request.batch if pieces else "", deadline
        )
        pieces = with_staged(pieces, verdicts.pieces, applied=verdicts.applied)
        renew = isinstance(request, pb.PlanRequest)
        outcome = await self._reconcile(key, topics, pieces, deadline, renew=renew)
        if verdicts.pending:
            await staged(
                self._gateway, key, request.session.epoch, request.batch, deadline, mark_reconciled=True
            )
        return outcome._replace(repeated=outcome.repeated or verdicts.applied)

    async def _reconcile(
        self,
        key: SessionKey,
        topics: TopicFilter,
        pieces: Mapping[Partition, Sequence[TypedRange]],
        deadline: Deadline,
        *,
        renew: bool = False,
    ) -> PlanOutcome:
        """Reconciles, then reads what the session holds in all partitions of topics. Raises KafkaError."""
        reconciliation = SessionReconciliation(self._gateway, self._acquire, key, renew)
        for (name, index), of_partition in pieces.items():
            reconciliation.add(self._gateway.catalog.topic(name), index, of_partition)
        outcome = await reconciliation.run(deadline)
        held = await reconciliation.held(topics) if topics else {}
        if held is None:  # a leader did not reply: query each partition at its present leader
            every = SessionReconciliation(self._gateway, self._acquire, key, renew)
            for topic, _ in topics:
                for index in range(topic.partitions):
                    every.add(topic, index, ())
            held = (await every.run(deadline)).held
        names = {topic.name for topic, _ in topics}
        rest = {part: runs for part, runs in outcome.held.items() if part[0] not in names}
        return outcome._replace(held={**rest, **held})


_TIMEOUT: Final = 10.0
"""Seconds for one call to a leader before it is retried."""
_READ_TIMEOUT: Final = 2.0
"""The same for a call that writes nothing."""


class PlanOutcome(NamedTuple):
    """The ranges that were not changed, and the locks that the session holds in the requested partitions.

    `repeated`: an earlier attempt may have been applied, so finished records may be the result of it.
    """

    left: list[pb.PlanLeft]
    held: Held
    repeated: bool


class SessionReconciliation:
    """One reconciliation, retried while leaders move or an earlier one is pending."""

    def __init__(self, gateway: Gateway, acquire: TopicAcquire, key: SessionKey, renew: bool) -> None:
        self._gateway = gateway
        self._acquire = acquire
        self._key = key
        self._renew = renew
        self._topics: dict[str, Topic] = {}
        self._pending: dict[Partition, Sequence[TypedRange]] = {}
        self._left: list[pb.PlanLeft] = []
        self._held: Held = {}
        self._repeated = False

    def add(self, topic: Topic | None, partition: int, pieces: Sequence[TypedRange]) -> None:
        """Adds a partition; records of a deleted topic are finished."""
        if topic is None or partition >= topic.partitions:
            self._leave(pieces, UnreconciledReason.FINISHED)
            return
        self._topics[topic.name] = topic
        self._pending[topic.name, partition] = pieces

    async def run(self, deadline: Deadline) -> PlanOutcome:
        """Reconciles all partitions. Raises KafkaError."""
        backoff = Backoff(deadline)
        while self._pending:
            partitions = list(self._pending)
            call = self._call([self._part(partition) for partition in partitions])
            results = await self._gateway.leaders.reconcile(call, _TIMEOUT)
            errors = []
            for partition, result in zip(partitions, results, strict=True):
                if result.error_code:
                    errors.append(error_of(result))
                else:
                    self._add_result(partition, result)
            self._repeated = bool(self._pending) or self._repeated
            if errors:
                await self._acquire.prepare_retry(errors, self._key.group_id, backoff)
                await self._ensure(errors, deadline)
            elif self._pending and not await backoff.pause():
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "An earlier commit is still pending.")
        return PlanOutcome(self._left, self._held, self._repeated)

    async def held(self, topics: TopicFilter) -> Held | None:
        """The held locks in topics, by one call per leader; None if a leader failed."""
        names = {topic.topic_id: topic.name for topic, _ in topics}
        calls = [peer.calls for peer in self._gateway.router.leaders()]
        replies = await asyncio.gather(*(self._held_at(leader, list(names)) for leader in calls))
        held: Held = {}
        for results in replies:
            if results is None or any(result.error_code for result in results):
                return None
            for result in results:
                held[names[result.topic_id], result.partition] = result.held
        return held if calls else None

    async def _held_at(self, leader: LeaderCalls, topic_ids: list[str]) -> Sequence[ReconcileResult] | None:
        try:
            return await leader.reconcile(self._call([], topic_ids), _READ_TIMEOUT)
        except KafkaError:
            return None

    async def _ensure(self, errors: Iterable[KafkaError], deadline: Deadline) -> None:
        if any(error.code in NO_STATE for error in errors):
            topics = [(topic, ()) for topic in self._topics.values()]
            await self._acquire.ensure(self._key.group_id, topics, deadline)

    def _part(self, partition: Partition) -> AckPart:
        name, index = partition
        batches = [AckBatch(first, last, (kind,)) for _, _, first, last, kind in self._pending[partition]]
        return AckPart(self._topics[name].topic_id, index, batches)

    def _call(self, parts: Sequence[AckPart], topic_ids: Sequence[str] = ()) -> ReconcileCall:
        key = self._key
        return ReconcileCall(
            key.group_id, key.member_id, parts, self._renew, topic_ids, principal=key.principal
        )

    def _add_result(self, partition: Partition, result: ReconcileResult) -> None:
        """Stores a result; pending offsets are sent again."""
        pending = []
        for first, last, reason in result.left:
            if reason is UnreconciledReason.UNDER_WAY:
                pending.append((first, last))
            else:
                self._leave(within(self._pending[partition], [(first, last)]), reason)
        if pending:
            self._pending[partition] = within(self._pending[partition], pending)
        else:
            del self._pending[partition]
            self._held[partition] = result.held

    def _leave(self, pieces: Iterable[TypedRange], why: UnreconciledReason) -> None:
        reason = delivery.LeftReason.ValueType(why)
        self._left.extend(
            pb.PlanLeft(
                range=plan_range(piece.topic, piece.partition, piece.first, piece.last), reason=reason
            )
            for piece in pieces
        )
