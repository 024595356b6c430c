"""One fetch: waits until records can be acquired, or until its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.share_partition_leader.config import DEFAULT_BATCH_SIZE
from services.share_partition_leader.core.values import AcquireMode, AcquireRequest, LostLock
from services.share_partition_leader.service.delivery import Key, Partitions, add_acquired
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
        self.holder = request.member_id
        self._request = request
        self._partitions = partitions
        self._room = request.max_records
        self._bytes = 0
        self._answers: dict[Key, pb.AcquireRecordsResponse.Partition] = {}
        self._again = asyncio.Event()

    async def run(self) -> list[pb.AcquireRecordsResponse.Partition]:
        """The answers, in the order of the request."""
        keys = [Key(p.topic_id, p.partition) for p in self._request.partitions]
        loaded = await self._load(keys)
        try:
            async with asyncio.timeout(self._request.max_wait_ms / 1000):
                while loaded and self._room > 0 and not await self._round(loaded):
                    await self._again.wait()
        except TimeoutError:
            pass
        empty = pb.AcquireRecordsResponse.Partition
        return [
            self._answers.get(key) or empty(topic_id=key.topic_id, partition=key.partition) for key in keys
        ]

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """See `Consumer`."""
        self._again.set()

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """Nobody to tell: the call is over by then, or has not answered yet."""

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The next round meets the reason."""
        self._again.set()

    async def _load(self, keys: Sequence[Key]) -> dict[Key, ShareGroupPartition]:
        loaded = {}
        found = await asyncio.gather(
            *(self._partitions.share_partition(self._request.group_id, *key) for key in keys),
            return_exceptions=True,
        )
        for key, share_partition in zip(keys, found, strict=True):
            if isinstance(share_partition, KafkaError):
                self._fail(key, share_partition)
            elif isinstance(share_partition, BaseException):
                raise share_partition
            else:
                loaded[key] = share_partition
        return loaded

    async def _round(self, loaded: dict[Key, ShareGroupPartition]) -> bool:
        """Asks every partition once; whether the fetch is satisfied."""
        self._again.clear()
        for key, share_partition in list(loaded.items()):
            if self._room <= 0 or self._bytes >= self._request.max_bytes > 0:
                break
            try:
                acquired = await self._acquire(share_partition)
            except KafkaError as error:
                self._fail(key, error)
                del loaded[key]
                continue
            if acquired is None:
                share_partition.wait(self)
            else:
                self._answer(key, acquired)
        return bool(self._answers) and self._bytes >= self._request.min_bytes

    async def _acquire(self, share_partition: ShareGroupPartition) -> Acquisition | None:
        request = AcquireRequest(
            self.holder,
            self._room,
            self._request.batch_size or DEFAULT_BATCH_SIZE,
            AcquireMode(self._request.acquire_mode),
        )
        acquired = share_partition.acquire(request)
        if acquired is Nothing.COLD:
            return await share_partition.acquire_cold(request)
        return acquired if isinstance(acquired, Acquisition) else None

    def _answer(self, key: Key, acquisition: Acquisition) -> None:
        answer = self._answers.setdefault(
            key, pb.AcquireRecordsResponse.Partition(topic_id=key.topic_id, partition=key.partition)
        )
        answer.record_batches += acquisition.records
        add_acquired(answer.acquired, acquisition)
        self._room -= acquisition.offsets
        self._bytes += len(acquisition.records)

    def _fail(self, key: Key, error: KafkaError) -> None:
        self._answers[key] = pb.AcquireRecordsResponse.Partition(
            topic_id=key.topic_id,
            partition=key.partition,
            error_code=int(error.code),  # type: ignore[arg-type]  # the enum's numbers are Kafka's
            error_message=error.message,
        )
