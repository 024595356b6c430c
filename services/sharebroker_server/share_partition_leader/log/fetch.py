"""Plain reading of logs: what is there, at once or when there is enough (Kafka: Fetch)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition


class LogFetch:
    """One Fetch call. Each time something is appended it looks at everything anew."""

    def __init__(self, leadership: Leadership, request: pb.FetchRequest) -> None:
        self._leadership = leadership
        self._request = request
        self._committed = request.isolation_level > 0
        self._watched: dict[str, LedPartition] = {}
        self._again = asyncio.Event()
        self._size = 0

    async def run(self) -> list[pb.FetchResponse.Partition]:
        """The answers, in the order of the request, when there is enough, or an error, or time is up."""
        deadline = asyncio.get_running_loop().time() + self._request.max_wait_ms / 1000
        partitions = ((asked.topic_id, asked.partition) for asked in self._request.partitions)
        # Side by side: some may have to be claimed first. What is refused shows again below.
        await asyncio.gather(*(self._leadership.led(*named) for named in partitions), return_exceptions=True)
        try:
            while not self._enough(answers := await self._round()):
                if self._size:
                    answers = []  # not kept meanwhile: a wait may be long, and of many clients
                if not await self._woken(deadline):
                    return answers or await self._round()
            return answers
        finally:
            for led in self._watched.values():
                led.readers.discard(self._again)

    async def _woken(self, deadline: float) -> bool:
        """Whether something was appended, or a partition given up, before the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._again.wait()
        except TimeoutError:
            return False
        return True

    def _enough(self, answers: Sequence[pb.FetchResponse.Partition]) -> bool:
        return self._size >= self._request.min_bytes or any(answer.error_code for answer in answers)

    async def _round(self) -> list[pb.FetchResponse.Partition]:
        self._again.clear()
        self._size = 0
        answers = []
        for asked in self._request.partitions:
            answer = pb.FetchResponse.Partition(topic_id=asked.topic_id, partition=asked.partition)
            try:
                await self._read(asked, answer)
            except KafkaError as error:
                answer.error_code = wire(error.code)
                answer.error_message = error.message
            answers.append(answer)
        return answers

    def _watch(self, led: LedPartition) -> None:
        before = self._watched.get(led.log.partition)
        if before is not led:
            if before is not None:
                before.readers.discard(self._again)
            self._watched[led.log.partition] = led
            led.readers.add(self._again)

    async def _read(self, asked: pb.FetchRequest.Partition, answer: pb.FetchResponse.Partition) -> None:
        led = await self._leadership.led(asked.topic_id, asked.partition)
        log = led.log
        self._watch(led)
        # Read even if there is no room: an offset that is out of range is told at once.
        room = self._request.max_bytes - self._size
        batches = await log.read(asked.fetch_offset, min(room, asked.partition_max_bytes))
        if self._size and batches and len(batches[0].data) > room:
            batches = []
        if self._committed:
            batches = [batch for batch in batches if batch.last_offset < log.last_stable_offset]
            _add_aborted(answer, log, asked.fetch_offset, batches)
        answer.high_watermark = log.log_end_offset
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        answer.leader_epoch = log.epoch
        records = b"".join(batch.data for batch in batches)
        answer.records = records
        self._size += len(records)


def _add_aborted(
    answer: pb.FetchResponse.Partition, log: PartitionLog, offset: int, batches: Sequence[StoredBatch]
) -> None:
    """Names the aborted transactions that what was read may have records of."""
    if batches:
        for transaction in log.transactions.aborted_in(offset, batches[-1].last_offset + 1):
            answer.aborted_transactions.add(
                producer_id=transaction.producer_id, first_offset=transaction.first_offset
            )
