"""Reconciles the records of planned batches at all their leaders, with retries.

A leader may leave offsets unchanged. Pending ones (an earlier state write of the same session is not durable
yet) are sent again; the others are reported to the driver with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AckBatch
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.clients.leaders import error_of
from sharebroker_server.gateway.consume.topic_acquire import NO_STATE, TopicAcquire, TopicFilter
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.planning import Partition, Piece, within
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.plan.messages import Held, plan_range
from sharebroker_server.leader_calls.values import (
    AckPart,
    LeaderCalls,
    LeftReason,
    ReconcileCall,
    ReconcileResult,
)

_TIMEOUT: Final = 10.0
"""Seconds for one call to a leader before it is retried."""
_READ_TIMEOUT: Final = 2.0
"""The same for a call that writes nothing."""


class Outcome(NamedTuple):
    """The ranges that were not changed, and the locks that the session holds in the requested partitions.

    `repeated`: an earlier attempt may have been applied, so finished records may be the result of it.
    """

    left: list[pb.PlanLeft]
    held: Held
    repeated: bool


class Reconciliation:
    """One reconciliation, retried while leaders move or an earlier one is pending."""

    def __init__(self, gateway: Gateway, acquire: TopicAcquire, key: SessionKey, renew: bool) -> None:
        self._gateway = gateway
        self._acquire = acquire
        self._key = key
        self._renew = renew
        self._topics: dict[str, Topic] = {}
        self._pending: dict[Partition, Sequence[Piece]] = {}
        self._left: list[pb.PlanLeft] = []
        self._held: Held = {}
        self._repeated = False

    def add(self, topic: Topic | None, partition: int, pieces: Sequence[Piece]) -> None:
        """Adds a partition; records of a deleted topic are finished."""
        if topic is None or partition >= topic.partitions:
            self._leave(pieces, LeftReason.FINISHED)
            return
        self._topics[topic.name] = topic
        self._pending[topic.name, partition] = pieces

    async def run(self, deadline: Deadline) -> Outcome:
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
        return Outcome(self._left, self._held, self._repeated)

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
        return ReconcileCall(*self._key, parts, self._renew, topic_ids)

    def _add_result(self, partition: Partition, result: ReconcileResult) -> None:
        """Stores a result; pending offsets are sent again."""
        pending = []
        for first, last, reason in result.left:
            if reason is LeftReason.UNDER_WAY:
                pending.append((first, last))
            else:
                self._leave(within(self._pending[partition], [(first, last)]), reason)
        if pending:
            self._pending[partition] = within(self._pending[partition], pending)
        else:
            del self._pending[partition]
            self._held[partition] = result.held

    def _leave(self, pieces: Iterable[Piece], why: LeftReason) -> None:
        reason = delivery.LeftReason.ValueType(why)
        self._left.extend(
            pb.PlanLeft(
                range=plan_range(piece.topic, piece.partition, piece.first, piece.last), reason=reason
            )
            for piece in pieces
        )
