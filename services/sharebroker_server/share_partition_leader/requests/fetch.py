"""One fetch: acquires records, or waits until some become available or its time ends.

A run has three steps.

1. Load: share-partitions that are not loaded are loaded concurrently. A share-partition that `loaded`
   returned is valid until the next `await`, so `_found` is cleared before every wait.
2. Round: each partition is served once, in the order of the call, until the record or byte limit is reached.
   Records in the hot cache are acquired synchronously; only a read from the store suspends the fetch.
3. Wait: without records, the fetch waits at every share-partition (`AvailabilityListener`) and starts another
   round when one notifies it.

Errors: a partition that failed is not served again in this fetch. If another partition had records, the error
is left to the next fetch. A share session that ended acquires nothing more: nothing would release its
records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls.values import AcquireCall, AcquireResult
from sharebroker_server.share_partition_leader.config import DEFAULT_BATCH_SIZE
from sharebroker_server.share_partition_leader.core.values import AcquireRequest
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched, NotFetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.ports import SharePartitions


class Fetch:
    """One acquire call; see the module."""

    __slots__ = (
        "_available",
        "_bytes",
        "_call",
        "_cold",
        "_failed",
        "_fetched",
        "_found",
        "_observed",
        "_partitions",
        "_request",
    )

    def __init__(self, call: AcquireCall, partitions: SharePartitions) -> None:
        self._call = call
        self._request = AcquireRequest(
            lock_holders.of_member(call.member_id),
            call.max_records,
            call.batch_size or DEFAULT_BATCH_SIZE,
            call.mode,
            call.with_markers,
            call.session_id,
        )
        self._partitions = partitions
        self._bytes = 0
        self._cold = False
        self._fetched: dict[TopicIdPartition, list[Fetched]] = {}
        self._failed: dict[TopicIdPartition, KafkaError] = {}
        self._found: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._observed: dict[ShareGroupPartition, None] = {}
        self._available = asyncio.Event()

    async def run(self) -> list[AcquireResult]:
        """The result of each partition, in the order of the call."""
        deadline = asyncio.get_running_loop().time() + self._call.max_wait
        missing = self._find_loaded()
        if missing:
            await self._load(missing)
        try:
            while True:
                self._available.clear()
                for part in self._due():
                    try:
                        share_partition = self._found.pop(part, None) or await self._share_partition(part)
                        fetched = share_partition.acquire(self._request, self._room)
                        if fetched is NotFetched.NOT_CACHED:
                            self._found = {}
                            fetched = await share_partition.acquire_uncached(self._request, self._room)
                    except KafkaError as error:
                        self._failed[part] = error
                    else:
                        self._add(part, share_partition, fetched)
                if self._is_complete() or self._call.max_wait <= 0:
                    break
                async with asyncio.timeout_at(deadline):
                    await self._available.wait()
        except TimeoutError:
            pass
        finally:
            for share_partition in self._observed:
                share_partition.remove_listener(self)
        return [self._result(part) for part in self._call.partitions]

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self._available.set()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition was unloaded; the next round finds its successor."""
        self._available.set()

    def _find_loaded(self) -> list[TopicIdPartition]:
        missing = []
        for part in self._call.partitions:
            loaded = self._partitions.loaded(self._call.group_id, *part)
            if loaded is None:
                missing.append(part)
            else:
                loaded.core.counts.fetches += 1
                self._found[part] = loaded
        return missing

    async def _load(self, missing: Sequence[TopicIdPartition]) -> None:
        self._cold = True
        self._found = {}
        loading = (self._partitions.share_partition(self._call.group_id, *part) for part in missing)
        for part, outcome in zip(
            missing, await asyncio.gather(*loading, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, KafkaError):
                self._failed[part] = outcome
            elif not isinstance(outcome, BaseException):
                outcome.core.counts.fetches += 1

    def _due(self) -> Iterator[TopicIdPartition]:
        """The partitions to serve in this round; ends when a limit is reached."""
        for part in self._call.partitions:
            if self._is_full():
                return
            if part not in self._failed:
                yield part

    def _is_full(self) -> bool:
        call = self._call
        return (
            self._request.max_records <= 0
            or self._bytes >= call.max_bytes > 0
            or (self._cold and self._bytes >= call.min_bytes > 0)
            or call.session_id in self._partitions.ended_sessions
        )

    def _is_complete(self) -> bool:
        enough = bool(self._fetched) and self._bytes >= self._call.min_bytes
        return enough or bool(self._failed) or self._is_full()

    async def _share_partition(self, part: TopicIdPartition) -> ShareGroupPartition:
        group_id = self._call.group_id
        loaded = self._partitions.loaded(group_id, *part)
        if loaded is None:
            self._found = {}
            loaded = await self._partitions.share_partition(group_id, *part)
        return loaded

    @property
    def _room(self) -> int:
        """Bytes that remain of the limit; 0 without a limit."""
        return self._call.max_bytes and self._call.max_bytes - self._bytes

    def _add(
        self, part: TopicIdPartition, share_partition: ShareGroupPartition, fetched: Fetched | NotFetched
    ) -> None:
        if not isinstance(fetched, Fetched):
            if self._call.max_wait > 0:
                self._observed[share_partition] = None
                share_partition.add_listener(self)
            return
        if part not in self._fetched:
            share_partition.core.counts.fetches_with_records += 1
        kept = Fetched(fetched.acquired, b"") if self._call.without_records else fetched
        self._fetched.setdefault(part, []).append(kept)
        request = self._request
        self._request = AcquireRequest(request.member, request.max_records - fetched.offsets, *request[2:])
        self._bytes += len(fetched.records)
        self._available.set()  # the partition may have more

    def _result(self, part: TopicIdPartition) -> AcquireResult:
        fetched = self._fetched.get(part)
        if fetched is None:
            error = self._failed.get(part)
            return AcquireResult(*part) if error is None else AcquireResult(*part, error.code, error.message)
        if len(fetched) == 1:
            return AcquireResult(*part, records=fetched[0].records, acquired=fetched[0].acquired)
        records = b"".join(item.records for item in fetched)
        return AcquireResult(
            *part, records=records, acquired=[run for item in fetched for run in item.acquired]
        )
