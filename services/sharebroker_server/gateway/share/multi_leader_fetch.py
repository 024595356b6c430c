"""Acquiring from the leaders of several partitions, as one call sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.clients.leaders import Leaders, failed, moved
from sharebroker_server.gateway.config import POLL_INTERVAL
from sharebroker_server.share_calls.values import AcquireCall, Acquisition

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
    from sharebroker_server.cluster.router import Peer


class MemberFetch:
    """One fetch of a member. One leader waits for records itself; several are asked in turn, and watched.

    Errors of partitions that were `told` before do not end the wait.
    """

    __slots__ = ("_answers", "_bytes", "_call", "_deadline", "_leaders", "_records", "_told")

    def __init__(
        self, leaders: Leaders, call: AcquireCall, told: Set[TopicIdPartition] = frozenset()
    ) -> None:
        self._leaders = leaders
        self._call = call
        self._told = told
        self._deadline = Deadline(call.max_wait)
        self._records = 0
        self._bytes = 0
        self._answers: dict[TopicIdPartition, Acquisition] = {}

    async def run(self) -> dict[TopicIdPartition, Acquisition]:
        """An answer for each partition that was asked: records, an error, or nothing."""
        asked = self._call.partitions
        while True:
            await self._round(asked)
            if self._records:
                return self._answers
            left = self._deadline.left()
            if left <= 0 or self._has_news():
                return self._answers
            await self._pause(left)

    async def _pause(self, left: float) -> None:
        """Until there may be records; never for less than a moment: what there is may be for nobody yet."""
        asked = self._call.partitions
        # No call to each leader for a wait that is over first, or that other leaders have to end.
        watched = left > POLL_INTERVAL and not any(one.error_code for one in self._answers.values())
        watch = self._leaders.watch(self._call.group_id, asked) if watched else None
        try:
            await asyncio.sleep(min(left, POLL_INTERVAL) if asked else left)
            if watch is not None:
                await watch.changes(self._deadline.left())
        finally:
            if watch is not None:
                watch.end()

    async def _round(self, asked: Sequence[TopicIdPartition]) -> None:
        peers, lost = await self._leaders.by_leader(asked)
        for part in lost:
            self._note(failed(Acquisition, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)))
        wait = self._deadline.left() if len(peers) == 1 and not lost else 0.0
        for peer, parts in peers:
            if self._room() <= 0:
                return
            for answer in await self._ask(peer, parts, wait):
                self._note(answer)

    async def _ask(
        self, peer: Peer[Stub], parts: Sequence[TopicIdPartition], wait: float
    ) -> Sequence[Acquisition]:
        call = self._call._replace(
            partitions=parts,
            max_wait=wait,
            max_records=self._room(),
            max_bytes=max(1, self._call.max_bytes - self._bytes) if self._call.max_bytes else 0,
        )
        try:
            return await self._leaders.share_calls(peer).acquire(call)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the process is gone
                error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            return [failed(Acquisition, part, error) for part in parts]

    def _note(self, answer: Acquisition) -> None:
        partition = TopicIdPartition(answer.topic_id, answer.partition)
        self._answers[partition] = answer
        if answer.acquired:
            self._records += sum(run.last - run.first + 1 for run in answer.acquired)
            self._bytes += len(answer.records)
        elif moved(answer):
            self._leaders.forget(partition)

    def _room(self) -> int:
        if self._call.max_bytes and self._bytes >= self._call.max_bytes:
            return 0
        return self._call.max_records - self._records

    def _has_news(self) -> bool:
        """An error that waiting does not mend, and that was not told before."""
        return any(
            answer.error_code and not moved(answer) and part not in self._told
            for part, answer in self._answers.items()
        )
