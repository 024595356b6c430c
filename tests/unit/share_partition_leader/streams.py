"""A client of a Deliver stream: its requests and everything it received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, TOPIC, Harness

Offset = tuple[int, int]
"""Partition and offset."""


class Stream:
    """Reads at once while `reading` is set; its lists grow as messages arrive."""

    def __init__(self, harness: Harness, opening: pb.DeliverRequest) -> None:
        self._harness = harness
        self._requests: asyncio.Queue[pb.DeliverRequest | None] = asyncio.Queue()
        self._requests.put_nowait(opening)
        self.reading = asyncio.Event()
        self.reading.set()
        self.messages: list[pb.DeliverResponse] = []
        self.runs: list[tuple[int, delivery.AcquiredRecords]] = []
        self.results: list[delivery.AcknowledgementResult] = []
        self.lost: list[delivery.LockLost] = []
        self.problems: list[pb.DeliverResponse.Problem] = []
        self._ids = 0
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with aclosing(self._harness.stub.Deliver(self._sent())) as responses:
            async for message in responses:
                await self.reading.wait()
                self.messages.append(message)
                for each in message.deliveries:
                    assert each.record_batches
                    self.runs += [(each.partition, run) for run in each.acquired]
                self.results += message.results
                self.lost += message.lock_lost
                self.problems += message.problems

    async def _sent(self) -> AsyncIterator[pb.DeliverRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    # Requests

    def send(self, request: pb.DeliverRequest) -> None:
        self._requests.put_nowait(request)

    def grant(self, credit: int) -> None:
        self.send(pb.DeliverRequest(credit=credit))

    def serve(self, *partitions: int) -> None:
        self.send(pb.DeliverRequest(partitions=_partitions(partitions)))

    def acknowledge(self, *acknowledgements: delivery.Acknowledgement) -> list[int]:
        """Acknowledges in one message and returns the ids."""
        for acknowledgement in acknowledgements:
            self._ids += 1
            acknowledgement.id = self._ids
        self.send(pb.DeliverRequest(acknowledgements=acknowledgements))
        return [acknowledgement.id for acknowledgement in acknowledgements]

    def finish(self) -> None:
        """Half-closes."""
        self._requests.put_nowait(None)

    # Responses

    @property
    def records(self) -> list[Offset]:
        """Every delivered record, once per delivery."""
        return [(p, x) for p, run in self.runs for x in range(run.first_offset, run.last_offset + 1)]

    @property
    def offsets(self) -> list[int]:
        """The same without partitions."""
        return [offset for _, offset in self.records]

    def token(self, offset: int, partition: int = 0) -> int:
        """Of the last acquisition of a record."""
        return [
            run.lock_token
            for where, run in self.runs
            if where == partition and run.first_offset <= offset <= run.last_offset
        ][-1]

    def outcome(self, ack_id: int) -> list[tuple[int, int, ErrorCode]]:
        """Results of one acknowledgement: first, last, code."""
        return [
            (result.first_offset, result.last_offset, ErrorCode(result.error_code))
            for result in self.results
            if result.id == ack_id
        ]

    async def got(self, condition: Callable[[], object]) -> None:
        await eventually(lambda: condition() or self.task.done(), timeout=120)
        assert condition()

    async def got_offsets(self, *offsets: int) -> None:
        """Exactly these records, in any order."""
        await self.got(lambda: len(self.offsets) >= len(offsets))
        assert sorted(self.offsets) == sorted(offsets)

    async def acknowledge_all(
        self, *acknowledgements: delivery.Acknowledgement
    ) -> list[tuple[int, int, ErrorCode]]:
        """Acknowledges and waits for all results, sorted."""
        ids = self.acknowledge(*acknowledgements)
        await self.got(lambda: set(ids) <= {result.id for result in self.results})
        return sorted(outcome for ack_id in ids for outcome in self.outcome(ack_id))

    async def break_off(self) -> None:
        """The connection breaks."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def ack(
    first: int, last: int | None = None, kind: int = ACCEPT, *, partition: int = 0, **fields: int | str
) -> delivery.Acknowledgement:
    """An acknowledgement of first..last."""
    return delivery.Acknowledgement(
        topic_id=TOPIC,
        partition=partition,
        first_offset=first,
        last_offset=last,
        type=kind,  # type: ignore[arg-type]  # any number, for the sake of refusals
        **fields,  # type: ignore[arg-type]
    )


@asynccontextmanager
async def stream(
    harness: Harness,
    *,
    member: str = "m1",
    partitions: Iterable[int] = (0,),
    credit: int = 0,
    group: str = GROUP,
    **opening: int,
) -> AsyncIterator[Stream]:
    """A member's stream; it breaks off at the end."""
    request = pb.DeliverRequest(
        open=pb.DeliverRequest.Open(group_id=group, member_id=member, **opening),  # type: ignore[arg-type]
        partitions=_partitions(partitions),
        credit=credit,
    )
    opened = Stream(harness, request)
    try:
        yield opened
    finally:
        await opened.break_off()


def _partitions(numbers: Iterable[int]) -> pb.DeliverRequest.Partitions:
    return pb.DeliverRequest.Partitions(
        partitions=[delivery.TopicPartition(topic_id=TOPIC, partition=number) for number in numbers]
    )
