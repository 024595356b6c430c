"""Fetch without a group: returns records at once, or waits for `min_bytes` (Kafka: Fetch)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.rpc.errors import wire
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition
from sharebroker_server.upstream_log.upstream_log import UpstreamLog

PORTION: Final = 500
"""Partitions that a fetch reads in one turn of the event loop."""


class LogFetch:
    """One Fetch request. It reads all partitions again after each append."""

    def __init__(self, leadership: Leadership, request: pb.FetchRequest) -> None:
        self._leadership = leadership
        self._request = request
        self._committed = request.isolation_level > 0
        self._registered: set[LedPartition] = set()
        self._unclaimed: dict[tuple[str, int], KafkaError] = {}
        self._appended = asyncio.Event()
        self._size = 0

    async def run(self) -> list[pb.FetchResponse.Partition]:
        """Returns the results in the order of the request: with `min_bytes`, an error, or at the deadline."""
        deadline = asyncio.get_running_loop().time() + self._request.max_wait_ms / 1000
        # Concurrently, since leases may have to be claimed.
        await gather_in_portions(self._claim, self._request.partitions)
        try:
            while not self._is_complete(results := await self._round()):
                if self._size:
                    results = []  # released: a long poll must not keep records in memory
                if not await self._woken(deadline):
                    return results or await self._round()
            return results
        finally:
            for led in self._registered:
                led.readers.discard(self._appended)

    async def _claim(self, item: pb.FetchRequest.Partition) -> None:
        try:
            await self._leadership.led(item.topic_id, item.partition)
        except KafkaError as error:
            self._unclaimed[item.topic_id, item.partition] = error

    async def _woken(self, deadline: float) -> bool:
        """Whether something was appended, or a partition was relinquished, before the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._appended.wait()
        except TimeoutError:
            return False
        return True

    def _is_complete(self, results: Sequence[pb.FetchResponse.Partition]) -> bool:
        return self._size >= self._request.min_bytes or any(result.error_code for result in results)

    async def _round(self) -> list[pb.FetchResponse.Partition]:
        self._appended.clear()
        self._size = 0
        results = []
        for number, item in enumerate(self._request.partitions, 1):
            if not number % PORTION:
                await asyncio.sleep(0)
            result = pb.FetchResponse.Partition(topic_id=item.topic_id, partition=item.partition)
            try:
                await self._read(item, result)
            except KafkaError as error:
                result.error_code = wire(error.code)
                result.error_message = error.message
            results.append(result)
        return results

    async def _read(self, item: pb.FetchRequest.Partition, result: pb.FetchResponse.Partition) -> None:
        # An error ends the fetch. Another claim for each partition would wait for a silent lease store again.
        if error := self._unclaimed.get((item.topic_id, item.partition)):
            raise error
        led = await self._leadership.led(item.topic_id, item.partition)
        log = led.log
        led.readers.add(self._appended)
        self._registered.add(led)
        # Reads even without room: an offset out of range is reported at once.
        room = self._request.max_bytes - self._size
        size = min(room, item.partition_max_bytes)
        batches = await log.read(item.fetch_offset, size, committed=self._committed)
        if self._size and batches and len(batches[0].data) > room:
            batches = []
        if self._committed:
            batches = [batch for batch in batches if batch.last_offset < log.last_stable_offset]
            for producer_id, first_offset in _aborted(log, item.fetch_offset, batches):
                result.aborted_transactions.add(producer_id=producer_id, first_offset=first_offset)
        result.high_watermark = log.records_end_offset
        result.last_stable_offset = log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        result.leader_epoch = log.epoch
        records = b"".join(batch.data for batch in batches)
        result.records = records
        self._size += len(records)


def _aborted(
    log: PartitionLog | UpstreamLog, offset: int, batches: Sequence[StoredBatch]
) -> Iterator[tuple[int, int]]:
    """Yields producer ids and first offsets of the aborted transactions with records in what was read."""
    if isinstance(log, UpstreamLog):  # it has no list of transactions: each of their batches is named
        spans = set(log.aborted_batches(batches))
        for batch in batches:
            if (batch.base_offset, batch.last_offset) in spans:
                yield header_of(batch.data).producer_id, batch.base_offset
    elif batches:
        for transaction in log.transactions.aborted_in(offset, batches[-1].last_offset + 1):
            yield transaction.producer_id, transaction.first_offset
