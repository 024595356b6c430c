"""One fetch: waits until records can be acquired, or until its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.share_calls.values import AcquireCall, Acquisition
from sharebroker_server.share_partition_leader.config import DEFAULT_BATCH_SIZE
from sharebroker_server.share_partition_leader.core.values import AcquireRequest
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched, NotFetched
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.deliver_stream import Partitions


class Fetching(Partitions, Protocol):
    """What a fetch asks."""

    @property
    def ended_sessions(self) -> lock_holders.EndedSessions:
        """Share sessions that ended lately."""


class Fetch:
    """One acquire call. Each partition is answered once: with records, with an error, or empty."""

    __slots__ = (
        "_again",
        "_answers",
        "_asked",
        "_bytes",
        "_cold",
        "_failed",
        "_found",
        "_partitions",
        "_request",
        "_waits",
    )

    def __init__(self, call: AcquireCall, partitions: Fetching) -> None:
        self._asked = call
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
        self._answers: dict[TopicIdPartition, list[Fetched]] = {}
        self._failed: dict[TopicIdPartition, KafkaError] = {}
        self._found: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._waits: dict[ShareGroupPartition, None] = {}
        self._again = asyncio.Event()

    async def run(self) -> list[Acquisition]:
        """The answers, in the order of the call."""
        deadline = asyncio.get_running_loop().time() + self._asked.max_wait
        await self._load()
        try:
            while not await self._round() and self._asked.max_wait > 0:
                async with asyncio.timeout_at(deadline):
                    await self._again.wait()
        except TimeoutError:
            pass
        finally:
            for share_partition in self._waits:
                share_partition.remove_listener(self)
        return [self._answer(part) for part in self._asked.partitions]

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self._again.set()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The next round looks for its successor."""
        self._again.set()

    async def _load(self) -> None:
        """Has partitions loaded, side by side; those that were are good until somebody waits."""
        group_id, missing = self._asked.group_id, []
        for part in self._asked.partitions:
            loaded = self._partitions.loaded(group_id, *part)
            if loaded is None:
                missing.append(part)
            else:
                loaded.core.counts.fetches += 1
                self._found[part] = loaded
        self._cold = bool(missing)
        if not missing:
            return
        self._found = {}
        loading = (self._partitions.share_partition(group_id, *part) for part in missing)
        for part, outcome in zip(
            missing, await asyncio.gather(*loading, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, KafkaError):
                self._failed[part] = outcome
            elif not isinstance(outcome, BaseException):
                outcome.core.counts.fetches += 1

    async def _round(self) -> bool:
        """Asks every partition once; whether the fetch is satisfied."""
        self._again.clear()
        if self._asked.session_id in self._partitions.ended_sessions:
            return True  # nobody would get the records, and they would stay locked
        for part in self._asked.partitions:
            if self._request.max_records <= 0 or self._bytes >= self._asked.max_bytes > 0:
                return True
            if self._cold and self._bytes >= self._asked.min_bytes > 0:
                return True
            if part not in self._failed:
                await self._ask(part)
        if self._failed:
            return True
        return bool(self._answers) and self._bytes >= self._asked.min_bytes

    @property
    def _room(self) -> int:
        """Bytes that may still come; 0 without a limit."""
        return self._asked.max_bytes and self._asked.max_bytes - self._bytes

    async def _ask(self, part: TopicIdPartition) -> None:
        group_id = self._asked.group_id
        try:
            share_partition = self._found.pop(part, None) or self._partitions.loaded(group_id, *part)
            if share_partition is None:
                self._found = {}
                share_partition = await self._partitions.share_partition(group_id, *part)
            taken = share_partition.acquire(self._request, self._room)
            if taken is NotFetched.NOT_CACHED:
                self._found = {}
                taken = await share_partition.acquire_uncached(self._request, self._room)
        except KafkaError as error:
            self._failed[part] = error  # not asked again
            return
        if isinstance(taken, Fetched):
            if part not in self._answers:
                share_partition.core.counts.fetches_with_records += 1
            self._take(part, taken)
        elif self._asked.max_wait > 0:
            self._waits[share_partition] = None
            share_partition.add_listener(self)

    def _take(self, part: TopicIdPartition, taken: Fetched) -> None:
        kept = Fetched(taken.acquired, b"") if self._asked.without_records else taken
        self._answers.setdefault(part, []).append(kept)
        asked = self._request
        self._request = AcquireRequest(asked.member, asked.max_records - taken.offsets, *asked[2:])
        self._bytes += len(taken.records)
        self._again.set()  # there may be more

    def _answer(self, part: TopicIdPartition) -> Acquisition:
        """A failure after records is met by the next fetch."""
        taken = self._answers.get(part)
        if taken is not None:
            return _together(part, taken)
        error = self._failed.get(part)
        return Acquisition(*part) if error is None else Acquisition(*part, error.code, error.message)


def _together(part: TopicIdPartition, taken: Sequence[Fetched]) -> Acquisition:
    if len(taken) == 1:
        return Acquisition(*part, records=taken[0].records, acquired=taken[0].acquired)
    records = b"".join(one.records for one in taken)
    return Acquisition(*part, records=records, acquired=[run for one in taken for run in one.acquired])
