"""Fetch: record batches of partitions as they lie in their logs, without any group (Kafka: Fetch)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from sharebroker_server.gateway.clients.leaders import failed, moved
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
    from sharebroker_server.cluster.router import Peer

Part = pb.FetchRequest.Partition
Answer = pb.FetchResponse.Partition

MOVED_PATIENCE: Final = 1.0
"""Seconds for which a partition that moves is looked for, however short a fetch may wait for records."""


@dataclass(frozen=True, slots=True)
class LogFetchLimits:
    """As Kafka's Fetch has them; `max_wait` in seconds. `committed` is isolation level read_committed."""

    max_wait: float = 0.0
    min_bytes: int = 1
    max_bytes: int = 1 << 31
    committed: bool = False


async def fetch_log(gateway: Gateway, parts: Sequence[Part], limits: LogFetchLimits) -> list[Answer]:
    """An answer for each part, in order: when there are `min_bytes`, or an error, or time is up."""
    fetch = _LogFetch(gateway, parts, limits)
    await fetch.run()
    return fetch.answers


class _LogFetch:
    """One fetch from all leaders there are."""

    def __init__(self, gateway: Gateway, parts: Sequence[Part], limits: LogFetchLimits) -> None:
        self._leaders = gateway.leaders
        self._parts = parts
        self._limits = limits
        self._deadline = Deadline(limits.max_wait)
        self._numbered = {id(part): index for index, part in enumerate(parts)}
        self.answers = [failed(Answer, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)) for part in parts]

    async def run(self) -> None:
        """Waits with one leader; of several asks each what is there, and waits with all if that is little."""
        # A partition that moves may have a new leader soon, also where the caller does not want to wait.
        backoff = Backoff(Deadline(max(self._limits.max_wait, MOVED_PATIENCE)))
        while True:
            peers = await self._find()
            wait = self._deadline.left() if len(peers) == 1 else 0.0
            await asyncio.gather(*(self._ask(peer, parts, wait) for peer, parts in peers))
            if not self._moved() or not await backoff.pause():
                break
        if len(peers) > 1 and not self._enough() and self._deadline.left() > 0:
            await self._wait(peers)

    async def _find(self) -> list[tuple[Peer[Stub], list[Part]]]:
        peers, lost = await self._leaders.by_leader(self._parts)
        for part in lost:
            self._note(part, failed(Answer, part, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)))
        return peers

    async def _wait(self, peers: Sequence[tuple[Peer[Stub], list[Part]]]) -> None:
        """Until one of the leaders has something to say; the others are not listened to any longer."""
        left = self._deadline.left()
        waiting = [asyncio.ensure_future(self._ask(peer, parts, left)) for peer, parts in peers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(waiting)

    async def _ask(self, peer: Peer[Stub], parts: list[Part], wait: float) -> None:
        limits = self._limits
        request = pb.FetchRequest(
            max_wait_ms=round(wait * 1000),
            min_bytes=limits.min_bytes,
            max_bytes=min(limits.max_bytes, 2**31 - 1),
            isolation_level=int(limits.committed),
            partitions=parts,
        )
        try:
            answers = list((await peer.stub.Fetch(request, timeout=wait + REQUEST_TIMEOUT)).partitions)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the process is gone
                error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            answers = [failed(Answer, part, error) for part in parts]
        for part, answer in zip(parts, answers, strict=True):
            self._note(part, answer)

    def _note(self, part: Part, answer: Answer) -> None:
        self.answers[self._numbered[id(part)]] = answer

    def _moved(self) -> bool:
        """Whether some partition is led elsewhere, or by nobody yet; it is looked for anew."""
        gone = [part for part, answer in zip(self._parts, self.answers, strict=True) if moved(answer)]
        for part in gone:
            self._leaders.forget(TopicIdPartition(part.topic_id, part.partition))
        return bool(gone)

    def _enough(self) -> bool:
        size = sum(len(answer.records) for answer in self.answers)
        return size >= self._limits.min_bytes or any(answer.error_code for answer in self.answers)
