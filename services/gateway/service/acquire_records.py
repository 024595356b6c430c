"""Acquiring from the leaders of several partitions, as one call sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.gateway.clients.deadline import Deadline
from services.gateway.clients.leaders import Leaders, failed, moved
from services.gateway.config import POLL_INTERVAL
from services.gateway.core.values import SessionKey, TopicPartition
from sharebroker.delivery.v1 import delivery_pb2 as delivery
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

if TYPE_CHECKING:
    from libs.rpc.router import Peer
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

Answer = pb.AcquireRecordsResponse.Partition
_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """As Kafka's ShareFetch has them; `max_bytes` 0 is the server's limit."""

    max_wait: float
    max_records: int
    min_bytes: int = 1
    max_bytes: int = 0
    batch_size: int = 0
    mode: delivery.AcquireMode.ValueType = delivery.ACQUIRE_MODE_UNSPECIFIED


class Acquisition:
    """One fetch of a member. One leader waits for records itself; several are asked in turn."""

    def __init__(self, leaders: Leaders, key: SessionKey, limits: FetchLimits) -> None:
        self._leaders = leaders
        self._key = key
        self._limits = limits
        self._deadline = Deadline(limits.max_wait)
        self._records = 0
        self._bytes = 0
        self._answers: dict[TopicPartition, Answer] = {}

    async def run(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Answer]:
        """An answer for each partition that was asked: records, an error, or nothing."""
        asked = [delivery.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in partitions]
        while True:
            await self._round(asked)
            left = self._deadline.left()
            if self._satisfied() or left <= 0:
                return self._answers
            await asyncio.sleep(min(left, POLL_INTERVAL))

    async def _round(self, asked: list[delivery.TopicPartition]) -> None:
        peers, lost = await self._leaders.by_leader(asked)
        for part in lost:
            self._note(failed(Answer, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)))
        wait = self._deadline.left() if len(peers) == 1 and not lost else 0.0
        for peer, parts in peers:
            if self._room() <= 0:
                return
            for answer in await self._ask(peer, parts, wait):
                self._note(answer)

    async def _ask(
        self, peer: Peer[Stub], parts: list[delivery.TopicPartition], wait: float
    ) -> Sequence[Answer]:
        limits = self._limits
        request = pb.AcquireRecordsRequest(
            group_id=self._key.group_id,
            member_id=self._key.member_id,
            partitions=parts,
            max_wait_ms=round(wait * 1000),
            min_bytes=limits.min_bytes,
            max_bytes=max(1, limits.max_bytes - self._bytes) if limits.max_bytes else 0,
            max_records=self._room(),
            batch_size=limits.batch_size,
            acquire_mode=limits.mode,
        )
        try:
            return (await peer.stub.AcquireRecords(request, timeout=wait + _GRACE)).partitions
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the process is gone
                error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            return [failed(Answer, part, error) for part in parts]

    def _note(self, answer: Answer) -> None:
        partition = TopicPartition(answer.topic_id, answer.partition)
        self._answers[partition] = answer
        self._records += sum(run.last_offset - run.first_offset + 1 for run in answer.acquired)
        self._bytes += len(answer.record_batches)
        if moved(answer):
            self._leaders.forget(partition)

    def _room(self) -> int:
        if self._limits.max_bytes and self._bytes >= self._limits.max_bytes:
            return 0
        return self._limits.max_records - self._records

    def _satisfied(self) -> bool:
        """Records, or an error that waiting does not mend."""
        return self._records > 0 or any(
            answer.error_code and not moved(answer) for answer in self._answers.values()
        )
