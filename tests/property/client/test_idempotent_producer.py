"""The Python producer stores every record once, in order, whatever becomes of its requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.client_errors import ConnectionLostError
from sharebroker.producer.buffer import PendingBatch, Publication, RecordBuffer
from sharebroker.producer.config import ProducerConfig
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from tests.support.lease import Lease
from tests.testkit.idempotent_producer import values_of
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually

PARTITIONS = 2
DELIVERY_TIMEOUT = 4.0

LATER = st.sampled_from(["", "response lost", "request lost", "request late"])
"""What becomes of a request; a late one arrives after the one that follows it."""


@dataclass
class Partition:
    """A log in memory, its next leaders, and the records that were sent to it."""

    number: int
    lease: Lease = field(default_factory=Lease)
    sent: list[tuple[str, Publication]] = field(default_factory=list)
    late: list[bytes] = field(default_factory=list)

    async def open(self) -> None:
        self.store = MemoryRecordStore(epoch_of=lambda _: self.lease.epoch)
        await self._lead()

    async def _lead(self) -> None:
        self.log = await PartitionLog.open(
            f"partition:t:{self.number}", self.lease.epoch, self.store, self.lease
        )

    async def take_over(self) -> None:
        await self.log.close()
        self.lease.epoch += 1
        await self._lead()

    async def append(self, data: bytes) -> int:
        try:
            return (await self.log.append(data)).base_offset
        finally:
            await eventually(lambda: self.log.phase is LogPhase.OPEN)

    async def stored(self) -> list[str]:
        batches = await self.store.read(f"partition:t:{self.number}", 0, 1 << 30)
        return list(values_of(bytes(batch.data) for batch in batches))


faults = st.none() | st.sampled_from([Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN])
step = st.tuples(
    st.lists(st.integers(0, PARTITIONS - 1), max_size=6),
    st.tuples(*[faults] * PARTITIONS),
    st.tuples(*[LATER] * PARTITIONS),
    st.booleans(),
)
History = list[tuple[list[int], tuple[Fault | None, ...], tuple[str, ...], bool]]


@given(st.lists(step, min_size=1, max_size=8), st.sampled_from([1.0, 0.0]))
def test_no_record_is_stored_twice_or_out_of_order(history: History, seconds: float) -> None:
    """`history` has, per round of some seconds, records, faults of stores and requests, and a takeover."""
    asyncio.run(_play(history, seconds))


async def _play(history: History, seconds: float) -> None:
    config = ProducerConfig(
        batch_size=100, delivery_timeout_ms=int(DELIVERY_TIMEOUT * 1000), retry_backoff_ms=1
    )
    buffer = RecordBuffer(config, lambda: None)
    buffer.set_partitions("t", PARTITIONS)
    assert buffer.sequences is not None
    buffer.sequences.begin(7, 0)
    partitions = [Partition(number) for number in range(PARTITIONS)]
    for partition in partitions:
        await partition.open()
    now = 0.0
    for records, stores, requests, takeover in history:
        now += seconds
        for number in records:
            value = str(len(partitions[number].sent))
            sent = buffer.append("t", number, (0, None, value.encode() * 20, ()), now)
            partitions[number].sent.append((value * 20, sent))
        for partition, fault in zip(partitions, stores, strict=True):
            if fault is not None:
                partition.store.fail_next_append(fault)
        if takeover:
            await partitions[0].take_over()
        buffer.expire(now)
        await _send(buffer, partitions, requests, now)
    for partition in partitions:
        partition.store.drop_faults()
    for _ in range(len(history) + 1):
        now += 0.1
        await _send(buffer, partitions, ("",) * PARTITIONS, now)
    assert not buffer.unconfirmed
    for partition in partitions:
        await _check(partition)


async def _send(
    buffer: RecordBuffer, partitions: list[Partition], requests: tuple[str, ...], now: float
) -> None:
    for batches in buffer.drain(now, flush=True):
        buffer.number(batches, now)
        partition = partitions[batches[0].partition]
        await _request(buffer, partition, batches, requests[partition.number], now)


async def _request(
    buffer: RecordBuffer, partition: Partition, batches: list[PendingBatch], becomes: str, now: float
) -> None:
    data = b"".join(batch.data for batch in batches)
    late, partition.late = partition.late, []
    try:
        if becomes == "request late":
            partition.late = [data]
        if becomes.startswith("request"):
            raise ConnectionLostError
        base_offset = await partition.append(data)
        if becomes == "response lost":
            raise ConnectionLostError
        buffer.complete(batches, base_offset, -1)
    except KafkaError as error:
        buffer.fail(batches, error, now)
    for data in late:
        try:
            await partition.append(data)
        except KafkaError:
            continue


async def _check(partition: Partition) -> None:
    stored = await partition.stored()
    assert max(Counter(stored).values(), default=1) == 1
    values = [value for value, _ in partition.sent]
    assert stored == [value for value in values if value in set(stored)]
    for value, publication in partition.sent:
        try:
            assert stored[publication.result(0).offset] == value
        except KafkaError:
            continue  # it may be stored or not
