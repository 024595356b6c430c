"""Fetches from the leaders of several partitions as one call.

With one leader, the leader does the long poll. With several, each is called in turn without a wait, until one
has records. Between two rounds the fetch waits for a records-available notification of any leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.clients.leaders import Leaders, Routes, failed, moved, unbind
from sharebroker_server.gateway.config import POLL_INTERVAL
from sharebroker_server.leader_calls.values import AcquireCall, AcquireResult


class MultiLeaderFetch:
    """One fetch of a member. Errors of partitions in `known_errors` do not end its wait."""

    __slots__ = (
        "_bytes",
        "_call",
        "_deadline",
        "_known_errors",
        "_leaders",
        "_records",
        "_results",
        "_routes",
    )

    def __init__(
        self,
        leaders: Leaders,
        call: AcquireCall,
        known_errors: Set[TopicIdPartition] = frozenset(),
        routes: Routes | None = None,
    ) -> None:
        self._leaders = leaders
        self._call = call
        self._known_errors = known_errors
        self._routes = routes
        self._deadline = Deadline(call.max_wait)
        self._records = 0
        self._bytes = 0
        self._results: dict[TopicIdPartition, AcquireResult] = {}

    async def run(self) -> dict[TopicIdPartition, AcquireResult]:
        """One result per partition of the call: records, an error, or nothing."""
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
                return self._results
            await self._pause(remaining)

    async def _pause(self, remaining: float) -> None:
        """Waits until there may be records, at least briefly: other members may acquire them first."""
        partitions = self._call.partitions
        # No watch for a wait that ends sooner, or while a partition has an error.
        watches = remaining > POLL_INTERVAL and not any(r.error_code for r in self._results.values())
        watch = self._leaders.watch(self._call.group_id, partitions) if watches else None
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
