"""Planned batches: commits the open batch of a session, plans the next one, renews and releases locks.

Every call that commits works in this order: read the staged verdicts of the batch; reconcile the records with
the commit and the verdicts; mark the staged verdicts as applied; only then plan the next batch. A driver that
repeats a call after a failure gets the same batch: what the session holds is stored at the leaders alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import (
    MAX_PLAN_RANGES,
    MAX_PLAN_RECORDS,
    MAX_STAGED_RANGES,
    MAX_WAIT,
    REQUEST_TIMEOUT,
)
from sharebroker_server.gateway.consume.topic_acquire import (
    AcquireLimits,
    TopicAcquire,
    TopicFilter,
    parts_of,
)
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.planning import RENEW, Partition, Piece, by_partition, with_staged
from sharebroker_server.gateway.core.validation import check_bounds, check_topic_names, refused
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.plan.messages import (
    column_pieces,
    committed_pieces,
    held_of,
    piece_of,
    planned_columns,
    planned_ranges,
    verdict_pieces,
)
from sharebroker_server.gateway.plan.reconciliation import Outcome, Reconciliation
from sharebroker_server.gateway.plan.sessions import session_key, stage, staged
from sharebroker_server.leader_calls.messages import partition_messages


class Planner:
    """Serves sessions without state of its own: the leaders store what a session holds."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._acquire = TopicAcquire(gateway)

    async def plan(self, request: pb.PlanRequest, deadline: Deadline) -> pb.PlanResponse:
        """Commits, then returns the open batch or plans a new one. Raises KafkaError."""
        topics = self._topics([(topic.name, topic.partitions) for topic in request.topics])
        check_bounds("max_records", request.max_records, 1, MAX_PLAN_RECORDS)
        check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))
        verdicts = by_partition(committed_pieces(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        everything = [(topic, ()) for topic, _ in topics]
        await self._acquire.ensure(key.group_id, everything, deadline)
        left, held, repeated = await self._commit(request, key, everything, verdicts, deadline)
        if not any(held.values()):
            limits = AcquireLimits(request.max_records, request.max_wait_ms / 1000, without_records=True)
            held = held_of(topics, await self._acquire.acquire(key, topics, limits, deadline))
        if request.by_columns:
            return pb.PlanResponse(columns=planned_columns(held), left=left, repeated=repeated)
        return pb.PlanResponse(ranges=planned_ranges(held), left=left, repeated=repeated)

    async def commit(self, request: pb.CommitRequest, deadline: Deadline) -> pb.CommitResponse:
        """Commits a batch. Raises KafkaError."""
        verdicts = by_partition(committed_pieces(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        left, _, repeated = await self._commit(request, key, [], verdicts, deadline)
        return pb.CommitResponse(left=left, repeated=repeated)

    async def stage(self, request: pb.StageRequest, deadline: Deadline) -> None:
        """Stages verdicts until the batch is committed. Raises KafkaError."""
        verdicts = by_partition(verdict_pieces(request.verdicts, "verdicts"), "verdicts", MAX_STAGED_RANGES)
        pieces = [piece for of_partition in verdicts.values() for piece in of_partition]
        await stage(self._gateway, request.session, request.batch, pieces, deadline)

    async def renew(self, request: pb.RenewRequest, deadline: Deadline) -> pb.RenewResponse:
        """Renews the held locks, and acquires lost ones again. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        pieces = [piece_of(span, RENEW) for span in request.ranges]
        pieces += column_pieces(request.columns, "columns", RENEW)
        pending = by_partition(pieces, "ranges", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        left, held, _ = await self._reconcile(key, topics, pending, deadline, renew=True)
        deadline_at = min((run.deadline for runs in held.values() for run in runs), default=0.0)
        return pb.RenewResponse(left=left, lock_deadline_ms=round(deadline_at * 1000))

    async def release(self, request: pb.ReleaseRequest, deadline: Deadline) -> None:
        """Releases all held records. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        key = await session_key(self._gateway, request.session, deadline)
        peers, _ = await self._gateway.leaders.by_leader(parts_of(topics))
        await asyncio.gather(
            *(
                peer.stub.ReleaseMember(
                    leader.ReleaseMemberRequest(
                        group_id=key.group_id,
                        member_id=key.member_id,
                        partitions=partition_messages(parts),
                    ),
                    timeout=min(deadline.remaining(), REQUEST_TIMEOUT),
                )
                for peer, parts in peers
            )
        )

    def _topics(self, filters: Sequence[tuple[str, Sequence[int]]]) -> TopicFilter:
        names = [name for name, _ in filters]
        if not names or len(set(names)) != len(names):
            raise refused("topics", "At least one topic is needed, each once.")
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
        pieces: Mapping[Partition, Sequence[Piece]],
        deadline: Deadline,
    ) -> Outcome:
        """Reconciles the committed records and applies the staged verdicts. Raises KafkaError."""
        verdicts = await staged(self._gateway, request.session, request.batch if pieces else "", deadline)
        pieces = with_staged(pieces, verdicts.pieces, applied=verdicts.applied)
        renew = isinstance(request, pb.PlanRequest)
        outcome = await self._reconcile(key, topics, pieces, deadline, renew=renew)
        if verdicts.pending:
            await staged(self._gateway, request.session, request.batch, deadline, mark_applied=True)
        return outcome._replace(repeated=outcome.repeated or verdicts.applied)

    async def _reconcile(
        self,
        key: SessionKey,
        topics: TopicFilter,
        pieces: Mapping[Partition, Sequence[Piece]],
        deadline: Deadline,
        *,
        renew: bool = False,
    ) -> Outcome:
        """Reconciles, then reads what the session holds in all partitions of topics. Raises KafkaError."""
        reconciliation = Reconciliation(self._gateway, self._acquire, key, renew)
        for (name, index), of_partition in pieces.items():
            reconciliation.add(self._gateway.catalog.topic(name), index, of_partition)
        outcome = await reconciliation.run(deadline)
        held = await reconciliation.held(topics) if topics else {}
        if held is None:  # a leader did not reply: query each partition at its present leader
            every = Reconciliation(self._gateway, self._acquire, key, renew)
            for topic, _ in topics:
                for index in range(topic.partitions):
                    every.add(topic, index, ())
            held = (await every.run(deadline)).held
        names = {topic.name for topic, _ in topics}
        rest = {part: runs for part, runs in outcome.held.items() if part[0] not in names}
        return outcome._replace(held={**rest, **held})
