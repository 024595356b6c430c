"""Reads record batches of partitions without a group: Fetch (as in Kafka) and ReadRange.

`committed_batches` removes the batches of aborted transactions. As in Kafka's consumer (CompletedFetch), a
producer's batches are skipped from the first offset of its aborted transaction to the marker that ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import plan_pb2 as plan
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT, Backoff, failed, moved
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.validation import check_bounds
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of

if TYPE_CHECKING:
    from sharebroker_server.routing.router import LeaderPeer

READ_RANGE_BYTES: Final = 1024 * 1024

MAX_READ_RANGE_BYTES: Final = 16 * 1024 * 1024
"""Default and limit of the bytes that `ReadRange` reads."""


Part = pb.FetchRequest.Partition
Result = pb.FetchResponse.Partition

MOVED_PATIENCE: Final = 1.0
"""Seconds for which the new leader of a partition is looked up, even if the fetch does not wait that long."""


@dataclass(frozen=True, slots=True)
class LogFetchLimits:
    """The limits of Kafka's Fetch; `max_wait` in seconds. `committed`: isolation level read_committed."""

    max_wait: float = 0.0
    min_bytes: int = 1
    max_bytes: int = 1 << 31
    committed: bool = False


async def fetch_log(gateway: Gateway, parts: Sequence[Part], limits: LogFetchLimits) -> list[Result]:
    """One result per part, in order; complete with `min_bytes`, an error, or at the end of the wait."""
    fetch = _LogFetch(gateway, parts, limits)
    await fetch.run()
    return fetch.results()


class _LogFetch:
    """One fetch from all leaders of its partitions."""

    def __init__(self, gateway: Gateway, parts: Sequence[Part], limits: LogFetchLimits) -> None:
        self._leaders = gateway.leaders
        self._parts = parts
        self._limits = limits
        self._deadline = Deadline(limits.max_wait)
        self._results: dict[int, Result] = {}  # by the identity of their parts

    def results(self) -> list[Result]:
        """The result of each part, after `run`."""
        return [self._results[id(part)] for part in self._parts]

    async def run(self) -> None:
        """A single leader does the long poll. Several are called without a wait first, then with one."""
        # A partition that moves may soon have a new leader; look it up even if the caller does not wait.
        backoff = Backoff(Deadline(max(self._limits.max_wait, MOVED_PATIENCE)))
        while True:
            peers = await self._find()
            wait = self._deadline.remaining() if len(peers) == 1 else 0.0
            await asyncio.gather(*(self._ask(peer, parts, wait) for peer, parts in peers))
            if not self._moved() or not await backoff.pause():
                break
        if len(peers) > 1 and not self._enough() and self._deadline.remaining() > 0:
            await self._wait(peers)

    async def _find(self) -> list[tuple[LeaderPeer, list[Part]]]:
        peers, unled = await self._leaders.by_leader(self._parts)
        error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        for part in unled:
            self._results[id(part)] = failed(Result, part, error)
        return peers

    async def _wait(self, peers: Sequence[tuple[LeaderPeer, list[Part]]]) -> None:
        """Waits for the first result of any leader and cancels the calls to the others."""
        remaining = self._deadline.remaining()
        waiting = [asyncio.ensure_future(self._ask(peer, parts, remaining)) for peer, parts in peers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(waiting)

    async def _ask(self, peer: LeaderPeer, parts: list[Part], wait: float) -> None:
        limits = self._limits
        request = pb.FetchRequest(
            max_wait_ms=round(wait * 1000),
            min_bytes=limits.min_bytes,
            max_bytes=min(limits.max_bytes, 2**31 - 1),
            isolation_level=int(limits.committed),
            partitions=parts,
        )
        try:
            results = list((await peer.stub.Fetch(request, timeout=wait + REQUEST_TIMEOUT)).partitions)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the process died
                error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            results = [failed(Result, part, error) for part in parts]
        for part, result in zip(parts, results, strict=True):
            self._results[id(part)] = result

    def _moved(self) -> bool:
        """Whether a partition has another leader or none; drops its cached leader."""
        stale = [part for part, result in zip(self._parts, self.results(), strict=True) if moved(result)]
        for part in stale:
            self._leaders.forget(TopicIdPartition(part.topic_id, part.partition))
        return bool(stale)

    def _enough(self) -> bool:
        results = self._results.values()
        size = sum(len(result.records) for result in results)
        return size >= self._limits.min_bytes or any(result.error_code for result in results)


Aborted = tuple[int, int]
"""A producer id, and the first offset of an aborted transaction of that producer."""


def headers_of(records: bytes) -> Iterable[tuple[BatchHeader, int]]:
    """The header of each batch and its position."""
    position = 0
    while position + HEADER_SIZE <= len(records):
        header = header_of(records, position)
        yield header, position
        position += header.size


def committed_batches(records: bytes, aborted: Sequence[Aborted]) -> bytes:
    """The batches without transaction markers and without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    ending: set[int] = set()
    kept = []
    for header, position in headers_of(records):
        while waiting and waiting[-1][1] <= header.last_offset:
            ending.add(waiting.pop()[0])
        if header.control:
            ending.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in ending):
            kept.append(records[position : position + header.size])
    return b"".join(kept)


async def read_range(gateway: Gateway, request: plan.ReadRangeRequest) -> plan.ReadRangeResponse:
    """The record batches of a range from its first offset on. Raises KafkaError, also OFFSET_OUT_OF_RANGE."""
    span = request.range
    topic = gateway.topic(span.topic, "range.topic")
    check_bounds("range.partition", span.partition, 0, topic.partitions - 1)
    check_bounds("max_bytes", request.max_bytes, 0, MAX_READ_RANGE_BYTES)
    if not 0 <= span.first_offset <= span.last_offset:
        raise invalid_field(
            "range", f"Offsets {span.first_offset} to {span.last_offset} are not a valid range."
        )
    size = request.max_bytes or READ_RANGE_BYTES
    part = Part(
        topic_id=topic.topic_id,
        partition=span.partition,
        fetch_offset=span.first_offset,
        partition_max_bytes=size,
    )
    limits = LogFetchLimits(max_bytes=size, committed=request.committed)
    (result,) = await fetch_log(gateway, [part], limits)
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message)
    *_, end = (span.first_offset, *(header.last_offset + 1 for header, _ in headers_of(result.records)))
    records = _committed(result) if request.committed else result.records
    return plan.ReadRangeResponse(record_batches=records, next_offset=end)


def _committed(result: Result) -> bytes:
    return committed_batches(
        result.records,
        [(aborted.producer_id, aborted.first_offset) for aborted in result.aborted_transactions],
    )
