"""Planned batches: what a session commits, is given next, and keeps locked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AckBatch, AcquiredRange, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.config import (
    MAX_PLAN_RANGES,
    MAX_PLAN_RECORDS,
    MAX_STAGED_RANGES,
    MAX_WAIT,
    REQUEST_TIMEOUT,
)
from sharebroker_server.gateway.consume.topic_acquire import NO_STATE, TopicAcquire, Wanted, Wish, parts_of
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.planning import (
    ACCEPT,
    RENEW,
    Partition,
    Piece,
    by_partition,
    still,
    with_staged,
)
from sharebroker_server.gateway.core.validation import check_bounds, check_topic_names, refused
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.plan.sessions import session_key, stage, staged
from sharebroker_server.share_calls.values import (
    Acquisition,
    LeftReason,
    SettleCall,
    Settlement,
    SettlePart,
    ShareCalls,
)

Held = dict[Partition, Sequence[AcquiredRange]]

_TRY: Final = 10.0
"""Seconds that leaders have to answer before they are asked again."""
_HELD_TRY: Final = 2.0
"""The same where nothing need be written."""


class Outcome(NamedTuple):
    """What was left as it is, and what the session holds of the partitions that were asked.

    `repeated`: an earlier try may have been carried out, so that what is finished may be so by it.
    """

    left: list[pb.PlanLeft]
    held: Held
    repeated: bool


class Planner:
    """Serves sessions; keeps nothing of them: what a session holds, its leaders know."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._acquire = TopicAcquire(gateway)

    async def plan(self, request: pb.PlanRequest, deadline: Deadline) -> pb.PlanResponse:
        """Commit, then give the open batch, or a new one. Raises KafkaError."""
        topics = self._topics([(topic.name, topic.partitions) for topic in request.topics])
        check_bounds("max_records", request.max_records, 1, MAX_PLAN_RECORDS)
        check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))
        verdicts = by_partition(_done(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        everything = [(topic, ()) for topic, _ in topics]
        await self._acquire.ensure(key.group_id, everything, deadline)
        left, held, repeated = await self._finish(request, key, everything, verdicts, deadline)
        if not any(held.values()):
            wanted = Wanted(request.max_records, request.max_wait_ms / 1000, without_records=True)
            held = _held(topics, await self._acquire.acquire(key, topics, wanted, deadline))
        if request.by_columns:
            return pb.PlanResponse(columns=_columns(held), left=left, repeated=repeated)
        return pb.PlanResponse(ranges=_planned(held), left=left, repeated=repeated)

    async def commit(self, request: pb.CommitRequest, deadline: Deadline) -> pb.CommitResponse:
        """Settle what is done. Raises KafkaError."""
        verdicts = by_partition(_done(request), "commit", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        left, _, repeated = await self._finish(request, key, [], verdicts, deadline)
        return pb.CommitResponse(left=left, repeated=repeated)

    async def stage(self, request: pb.StageRequest, deadline: Deadline) -> None:
        """Keep what is said of the open batch until it is committed. Raises KafkaError."""
        verdicts = by_partition(_verdicts(request.verdicts, "verdicts"), "verdicts", MAX_STAGED_RANGES)
        pieces = [piece for some in verdicts.values() for piece in some]
        await stage(self._gateway, request.session, request.batch, pieces, deadline)

    async def renew(self, request: pb.RenewRequest, deadline: Deadline) -> pb.RenewResponse:
        """Renew what is held, and take back what was lost. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        pieces = [_piece(one, RENEW) for one in request.ranges]
        pieces += _pieces(request.columns, "columns", RENEW)
        asked = by_partition(pieces, "ranges", MAX_PLAN_RANGES)
        key = await session_key(self._gateway, request.session, deadline)
        left, held, _ = await self._settle(key, topics, asked, deadline, renew=True)
        deadline_at = min((run.deadline for runs in held.values() for run in runs), default=0.0)
        return pb.RenewResponse(left=left, lock_deadline_ms=round(deadline_at * 1000))

    async def release(self, request: pb.ReleaseRequest, deadline: Deadline) -> None:
        """Give back all that is held. Raises KafkaError."""
        topics = self._topics([(name, ()) for name in request.topics])
        key = await session_key(self._gateway, request.session, deadline)
        parts = [delivery.TopicPartition(topic_id=t, partition=p) for t, p in parts_of(topics)]
        peers, _ = await self._gateway.leaders.by_leader(parts)
        await asyncio.gather(
            *(
                peer.stub.ReleaseMember(
                    leader.ReleaseMemberRequest(
                        group_id=key.group_id, member_id=key.member_id, partitions=some
                    ),
                    timeout=min(deadline.left(), REQUEST_TIMEOUT),
                )
                for peer, some in peers
            )
        )

    def _topics(self, asked: Sequence[tuple[str, Sequence[int]]]) -> Wish:
        names = [name for name, _ in asked]
        if not names or len(set(names)) != len(names):
            raise refused("topics", "At least one topic is needed, each once.")
        check_topic_names("topics", names)
        wish = [(self._gateway.topic(name), list(partitions)) for name, partitions in asked]
        for topic, partitions in wish:
            for partition in partitions:
                check_bounds("topics.partitions", partition, 0, topic.partitions - 1)
        return wish

    async def _finish(
        self,
        request: pb.PlanRequest | pb.CommitRequest,
        key: SessionKey,
        topics: Wish,
        pieces: Mapping[Partition, Sequence[Piece]],
        deadline: Deadline,
    ) -> Outcome:
        """Settle what is done, as it was staged; noted before anything else is planned. Raises KafkaError."""
        kept = await staged(self._gateway, request.session, request.batch if pieces else "", deadline)
        pieces = with_staged(pieces, kept.pieces, settled=kept.settled)
        renew = isinstance(request, pb.PlanRequest)
        outcome = await self._settle(key, topics, pieces, deadline, renew=renew)
        if kept.waits:
            await staged(self._gateway, request.session, request.batch, deadline, settle=True)
        return outcome._replace(repeated=outcome.repeated or kept.settled)

    async def _settle(
        self,
        key: SessionKey,
        topics: Wish,
        pieces: Mapping[Partition, Sequence[Piece]],
        deadline: Deadline,
        *,
        renew: bool = False,
    ) -> Outcome:
        """Settle, and find out what the session holds then in any partition of topics. Raises KafkaError."""
        settling = _Settling(self._gateway, self._acquire, key, renew)
        for (name, index), some in pieces.items():
            settling.ask(self._gateway.catalog.topic(name), index, some)
        outcome = await settling.run(deadline)
        held = await settling.held(topics) if topics else {}
        if held is None:  # somebody did not tell: each partition is asked, wherever it is led by now
            every = _Settling(self._gateway, self._acquire, key, renew)
            for topic, _ in topics:
                for index in range(topic.partitions):
                    every.ask(topic, index, ())
            held = (await every.run(deadline)).held
        names = {topic.name for topic, _ in topics}
        rest = {part: runs for part, runs in outcome.held.items() if part[0] not in names}
        return outcome._replace(held={**rest, **held})


class _Settling:
    """One settlement, repeated where leaders move or an earlier one is under way."""

    def __init__(self, gateway: Gateway, acquire: TopicAcquire, key: SessionKey, renew: bool) -> None:
        self._gateway = gateway
        self._acquire = acquire
        self._key = key
        self._renew = renew
        self._topics: dict[str, Topic] = {}
        self._asked: dict[Partition, Sequence[Piece]] = {}
        self._left: list[pb.PlanLeft] = []
        self._held: Held = {}
        self._repeated = False

    def ask(self, topic: Topic | None, partition: int, pieces: Sequence[Piece]) -> None:
        """A partition and what is said of it; of a topic that is gone everything is finished."""
        if topic is None or partition >= topic.partitions:
            self._leave(pieces, LeftReason.FINISHED)
            return
        self._topics[topic.name] = topic
        self._asked[topic.name, partition] = pieces

    async def run(self, deadline: Deadline) -> Outcome:
        """Settle. Raises KafkaError."""
        backoff = Backoff(deadline)
        while self._asked:
            asked = list(self._asked)
            call = self._call([self._part(partition) for partition in asked])
            answers = await self._gateway.leaders.settle(call, _TRY)
            errors = []
            for partition, answer in zip(asked, answers, strict=True):
                if answer.error_code:
                    errors.append(_error(answer))
                else:
                    self._take(partition, answer)
            self._repeated = bool(self._asked) or self._repeated
            if errors:
                await self._acquire.after(errors, self._key.group_id, backoff)
                await self._ensure(errors, deadline)
            elif self._asked and not await backoff.pause():
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "An earlier commit is still under way.")
        return Outcome(self._left, self._held, self._repeated)

    async def held(self, topics: Wish) -> Held | None:
        """What is held in topics, by one call to each leader; None: one did not tell of all that it leads."""
        names = {topic.topic_id: topic.name for topic, _ in topics}
        calls = [self._gateway.leaders.share_calls(peer) for peer in self._gateway.router.leaders()]
        answers = await asyncio.gather(*(self._held_at(leader, list(names)) for leader in calls))
        held: Held = {}
        for answer in answers:
            if answer is None or any(one.error_code for one in answer):
                return None
            for one in answer:
                held[names[one.topic_id], one.partition] = one.held
        return held if calls else None

    async def _held_at(self, leader: ShareCalls, topic_ids: list[str]) -> Sequence[Settlement] | None:
        try:
            return await leader.settle(self._call([], topic_ids), _HELD_TRY)
        except KafkaError:
            return None

    async def _ensure(self, errors: Iterable[KafkaError], deadline: Deadline) -> None:
        if any(error.code in NO_STATE for error in errors):
            topics = [(topic, ()) for topic in self._topics.values()]
            await self._acquire.ensure(self._key.group_id, topics, deadline)

    def _part(self, partition: Partition) -> SettlePart:
        name, index = partition
        batches = [AckBatch(first, last, (kind,)) for _, _, first, last, kind in self._asked[partition]]
        return SettlePart(self._topics[name].topic_id, index, batches)

    def _call(self, parts: Sequence[SettlePart], topic_ids: Sequence[str] = ()) -> SettleCall:
        return SettleCall(*self._key, parts, self._renew, topic_ids)

    def _take(self, partition: Partition, answer: Settlement) -> None:
        """Note an answer; what is under way is asked again."""
        under_way = []
        for first, last, reason in answer.left:
            if reason is LeftReason.UNDER_WAY:
                under_way.append((first, last))
            else:
                self._leave(still(self._asked[partition], [(first, last)]), reason)
        if under_way:
            self._asked[partition] = still(self._asked[partition], under_way)
        else:
            del self._asked[partition]
            self._held[partition] = answer.held

    def _leave(self, pieces: Iterable[Piece], why: LeftReason) -> None:
        reason = delivery.LeftReason.ValueType(why)
        self._left.extend(
            pb.PlanLeft(range=_range(piece.topic, piece.partition, piece.first, piece.last), reason=reason)
            for piece in pieces
        )


def _done(request: pb.PlanRequest | pb.CommitRequest) -> list[Piece]:
    return [*_verdicts(request.commit), *_pieces(request.accepted, "accepted", ACCEPT)]


def _verdicts(verdicts: Iterable[pb.PlanVerdict], field: str = "commit") -> list[Piece]:
    pieces = [_piece(one.range, one.type) for one in verdicts]
    if any(piece.kind == RENEW for piece in pieces):
        raise refused(field, "A batch that is done is not renewed.")
    return pieces


def _piece(one: pb.PlanRange, kind: int) -> Piece:
    return Piece(one.topic, one.partition, one.first_offset, one.last_offset, kind)


def _pieces(columns: Iterable[pb.PlanColumns], field: str, kind: int) -> list[Piece]:
    found: list[Piece] = []
    for index, one in enumerate(columns):
        partitions, firsts, lasts = one.partitions, one.first_offsets, one.last_offsets
        if not len(partitions) == len(firsts) == len(lasts):
            raise refused(f"{field}[{index}]", "Its fields are not of one length.")
        found.extend(map(Piece, repeat(one.topic), partitions, firsts, lasts, repeat(kind)))
    return found


def _range(topic: str, partition: int, first: int, last: int) -> pb.PlanRange:
    return pb.PlanRange(topic=topic, partition=partition, first_offset=first, last_offset=last)


def _held(topics: Wish, acquired: Mapping[TopicIdPartition, Acquisition]) -> Held:
    """What was acquired, as if it had been held before."""
    names = {topic.topic_id: topic.name for topic, _ in topics}
    return {(names[part.topic_id], part.partition): one.acquired for part, one in acquired.items()}


def _planned(held: Held) -> list[pb.PlannedRange]:
    return [
        pb.PlannedRange(
            range=_range(topic, partition, first, last),
            delivery_count=count,
            lock_deadline_ms=round(deadline * 1000),
        )
        for (topic, partition), runs in sorted(held.items())
        for first, last, count, _, deadline in runs
    ]


def _columns(held: Held) -> list[pb.PlannedColumns]:
    """The same by topics, which costs a tenth."""
    topics: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for (topic, partition), runs in sorted(held.items()):
        rows = topics.setdefault(topic, []) if runs else []
        for first, last, count, _, deadline in runs:
            rows.append((partition, first, last, count, round(deadline * 1000)))
    return [
        pb.PlannedColumns(
            topic=topic,
            partitions=partitions,
            first_offsets=firsts,
            last_offsets=lasts,
            delivery_counts=counts,
            lock_deadlines_ms=deadlines,
        )
        for topic, rows in topics.items()
        for partitions, firsts, lasts, counts, deadlines in [zip(*rows, strict=True)]
    ]


def _error(answer: Settlement) -> KafkaError:
    return KafkaError(
        ErrorCode(answer.error_code),
        answer.error_message,
        metadata={"topic_id": answer.topic_id, "partition": str(answer.partition)},
    )
