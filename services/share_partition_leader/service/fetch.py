"""One fetch: waits until records can be acquired, or until its time is up."""

from __future__ import annotations

import asyncio

from libs.rpc.in_band import wire
from services.share_partition_leader.config import DEFAULT_BATCH_SIZE
from services.share_partition_leader.core.values import AcquireMode, AcquireRequest
from services.share_partition_leader.service import holders
from services.share_partition_leader.service.delivery import Key, Partitions
from services.share_partition_leader.service.outbox import add_acquired
from services.share_partition_leader.service.share_group_partition import (
    Acquisition,
    Nothing,
    ShareGroupPartition,
)
from sharebroker.errors import KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb


class Fetch:
    """One AcquireRecords call. Each partition is answered once: with records, with an error, or empty."""

    def __init__(self, request: pb.AcquireRecordsRequest, partitions: Partitions) -> None:
        self._asked = request
        self._request = AcquireRequest(
            holders.of_member(request.member_id),
            request.max_records,
            request.batch_size or DEFAULT_BATCH_SIZE,
            AcquireMode(request.acquire_mode),
        )
        self._partitions = partitions
        self._keys = [Key(p.topic_id, p.partition) for p in request.partitions]
        self._bytes = 0
        self._answers: dict[Key, pb.AcquireRecordsResponse.Partition] = {}
        self._failed: set[Key] = set()
        self._waits: dict[ShareGroupPartition, None] = {}
        self._again = asyncio.Event()

    async def run(self) -> list[pb.AcquireRecordsResponse.Partition]:
        """The answers, in the order of the request."""
        deadline = asyncio.get_running_loop().time() + self._asked.max_wait_ms / 1000
        await self._load()
        try:
            while not await self._round():
                async with asyncio.timeout_at(deadline):
                    await self._again.wait()
        except TimeoutError:
            pass
        finally:
            for share_partition in self._waits:
                share_partition.wait_no_more(self)
        return [self._answers.get(key) or _answer(key) for key in self._keys]

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self._again.set()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The next round looks for its successor."""
        self._again.set()

    async def _load(self) -> None:
        """Has all partitions loaded side by side."""
        loading = (self._partitions.share_partition(self._asked.group_id, *key) for key in self._keys)
        loaded = await asyncio.gather(*loading, return_exceptions=True)
        for key, outcome in zip(self._keys, loaded, strict=True):
            if isinstance(outcome, KafkaError):
                self._fail(key, outcome)

    async def _round(self) -> bool:
        """Asks every partition once; whether the fetch is satisfied."""
        self._again.clear()
        for key in self._keys:
            if self._request.max_records <= 0 or self._bytes >= self._asked.max_bytes > 0:
                return True
            if key not in self._failed:
                await self._ask(key)
        if self._failed:
            return True
        return bool(self._answers) and self._bytes >= self._asked.min_bytes

    @property
    def _room(self) -> int:
        """Bytes that may still come; 0 without a limit."""
        return self._asked.max_bytes and self._asked.max_bytes - self._bytes

    async def _ask(self, key: Key) -> None:
        try:
            share_partition = await self._partitions.share_partition(self._asked.group_id, *key)
            acquired = share_partition.acquire(self._request, self._room)
            if acquired is Nothing.COLD:
                acquired = await share_partition.acquire_cold(self._request, self._room)
        except KafkaError as error:
            self._fail(key, error)
            return
        if isinstance(acquired, Acquisition):
            self._take(key, acquired)
        else:
            self._waits[share_partition] = None
            share_partition.wait(self)

    def _take(self, key: Key, acquisition: Acquisition) -> None:
        answer = self._answers.setdefault(key, _answer(key))
        answer.record_batches += acquisition.records
        add_acquired(answer.acquired, acquisition)
        self._request = self._request._replace(max_records=self._request.max_records - acquisition.offsets)
        self._bytes += len(acquisition.records)
        self._again.set()  # there may be more

    def _fail(self, key: Key, error: KafkaError) -> None:
        """Not asked again; a failure after records is met by the next fetch."""
        self._failed.add(key)
        if key not in self._answers:
            answer = self._answers[key] = _answer(key)
            answer.error_code = wire(error.code)
            answer.error_message = error.message


def _answer(key: Key) -> pb.AcquireRecordsResponse.Partition:
    return pb.AcquireRecordsResponse.Partition(topic_id=key.topic_id, partition=key.partition)
