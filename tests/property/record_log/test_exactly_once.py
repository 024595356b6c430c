"""A pipelining idempotent producer stores every record once, in order, whatever becomes of its requests."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from tests.support.lease import Lease
from tests.testkit.idempotent_producer import MAX_IN_FLIGHT, IdempotentProducer, Request, encoded, values_of
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually

PARTITIONS = 2
PRODUCER = 7
ROUNDS = 6
BATCHES = 6
"""The most new batches in a round."""

UNHARMED = 1 + -(-ROUNDS * BATCHES // MAX_IN_FLIGHT)
"""Rounds without faults at the end: enough to send all batches, if none was stored before."""

faults = st.none() | st.sampled_from([Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN])
rounds = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 3)), max_size=BATCHES),
        st.tuples(*[faults] * PARTITIONS),
        st.sets(st.integers(0, 9), max_size=4),
        st.booleans(),
    ),
    min_size=1,
    max_size=ROUNDS,
)


class Partition:
    """A log in memory, and its next leaders."""

    def __init__(self, number: int) -> None:
        self.name = f"partition:t:{number}"
        self.lease = Lease()
        self.store = MemoryRecordStore(epoch_of=lambda _: self.lease.epoch)

    async def open(self) -> None:
        self.log = await PartitionLog.open(self.name, self.lease.epoch, self.store, self.lease)

    async def take_over(self) -> None:
        await self.log.close()
        self.lease.epoch += 1
        await self.open()

    async def append(self, request: Request) -> ErrorCode:
        try:
            await self.log.append(encoded(PRODUCER, request))
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def stored(self) -> list[str]:
        batches = await self.store.read(self.name, 0, 1 << 30)
        return list(values_of(bytes(batch.data) for batch in batches))


@given(rounds)
def test_records_are_stored_once_and_in_order(
    history: list[tuple[list[tuple[int, int]], tuple[Fault | None, ...], set[int], bool]],
) -> None:
    """`history` has, per round, new batches, a fault of each store, requests that get lost, a takeover."""
    asyncio.run(_play(history))


async def _play(
    history: list[tuple[list[tuple[int, int]], tuple[Fault | None, ...], set[int], bool]],
) -> None:
    partitions = [Partition(number) for number in range(PARTITIONS)]
    for partition in partitions:
        await partition.open()
    producer, written = IdempotentProducer(PRODUCER, PARTITIONS), [0] * PARTITIONS
    for batches, failures, lost, takeover in history:
        for number, count in batches:
            producer.add(number, [str(written[number] + offset) for offset in range(count)])
            written[number] += count
        for partition, fault in zip(partitions, failures, strict=True):
            if fault is not None:
                partition.store.fail_next_append(fault)
        if takeover:
            await partitions[0].take_over()
        await _send(producer, partitions, lost)
    for partition in partitions:
        partition.store.drop_faults()  # a round without appends leaves its fault queued
    for _ in range(UNHARMED):
        await _send(producer, partitions, set())
    assert (producer.fatal, producer.bumps, producer.done) == (ErrorCode.NONE, 0, True)
    for partition, count, acknowledged in zip(partitions, written, producer.acknowledged, strict=True):
        assert await partition.stored() == acknowledged == [str(number) for number in range(count)]


async def _send(producer: IdempotentProducer, partitions: list[Partition], lost: set[int]) -> None:
    """Sends what the producer has to send; each batch finds the log open only if earlier ones left it so."""
    requests = producer.to_send()
    arriving = [
        (request, asyncio.ensure_future(partitions[request.partition].append(request)))
        for position, request in enumerate(requests)
        if position not in lost
    ]
    codes = dict[Request, ErrorCode]()
    for request, arrived in arriving:
        codes[request] = await arrived
    for request in requests:
        producer.completed(request, codes.get(request))
    for partition in partitions:
        await eventually(lambda: partition.log.phase is LogPhase.OPEN)  # noqa: B023 - it is called at once
