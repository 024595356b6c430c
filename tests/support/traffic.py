"""Publishers and consumers that retry during faults, and records of what was confirmed to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import grpc

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.support.client import ACCEPT, Client, connected, unique
from tests.testkit.waiting import eventually

PAUSE = 0.05
PACE = 0.01
BATCH = 20
CREDIT = 60

Position = tuple[int, int]


@dataclass
class Books:
    """The confirmed outcomes, and the violations of the guarantee."""

    published: dict[str, Position] = field(default_factory=dict)
    accepted: dict[Position, str] = field(default_factory=dict)
    deliveries: Counter[Position] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def delivered(self, record: share.ShareRecord) -> None:
        """Records a delivery; an accepted record must not be delivered again."""
        at = (record.partition, record.offset)
        self.deliveries[at] += 1
        if at in self.accepted:
            self.broken.append(f"{at} was delivered after it was accepted")
        known = self.published.get(record.text)
        if known is not None and known != at:
            self.broken.append(f"{record.text} lies at {at}, answered was {known}")

    @property
    def missing(self) -> set[Position]:
        """Returns the published records that are not accepted yet."""
        return {at for text, at in self.published.items() if self.accepted.get(at) != text}


class Traffic:
    """One topic, one group: a publisher and some consumers, each on a connection of its own."""

    def __init__(self, address: str, topic: str, group_id: str) -> None:
        self.books = Books()
        self.publishing = True
        self.acknowledging = True
        self.group_id = group_id
        self._address = address
        self._topic = topic

    @asynccontextmanager
    async def flowing(self, consumers: int = 2, at_first: int = 200) -> AsyncIterator[Books]:
        """Runs until the end of the block, which begins when this many records were accepted."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._publish())]
            running += [tasks.create_task(self._consume()) for _ in range(consumers)]
            await self.moves(at_first)
            yield self.books
            for task in running:
                task.cancel()

    async def moves(self, records: int = 200) -> None:
        """Returns once this many more records were accepted."""
        goal = len(self.books.accepted) + records
        await eventually(lambda: len(self.books.accepted) >= goal, 45.0)

    async def drain(self, client: Client, topic_id: str) -> None:
        """Stops publishing; returns once every published record is accepted. Accepted records must be
        stored as such.

        A failure may have lost the response to an acceptance; the stored state decides then.
        """
        self.publishing = False

        async def drained() -> bool:
            accepted = set(self.books.accepted)
            finished = await self._finished(client, topic_id)
            assert finished >= accepted
            return finished >= self.books.missing

        await eventually(drained, 45.0)

    async def _finished(self, client: Client, topic_id: str) -> set[Position]:
        partitions = {partition for partition, _ in (*self.books.published.values(), *self.books.accepted)}
        return {
            (partition, offset)
            for partition in partitions
            for offset in await client.finished(self.group_id, topic_id, partition)
        }

    async def _publish(self) -> None:
        numbers = count()
        async with connected(self._address) as client:
            while True:
                texts = [f"record {next(numbers)}" for _ in range(BATCH)]
                try:
                    if self.publishing:
                        answered = await client.publish(self._topic, texts, timeout=5.0)
                        self.books.published.update(zip(texts, answered, strict=True))
                except grpc.aio.AioRpcError:  # may be stored or not: it was not acknowledged
                    await asyncio.sleep(PAUSE)
                await asyncio.sleep(PACE)

    async def _consume(self) -> None:
        # the same client in every stream: it must not wait for its own session to end
        member = unique("member")
        async with connected(self._address) as client:
            while True:
                try:
                    await self._stream(client, member)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(PAUSE)

    async def _stream(self, client: Client, member: str) -> None:
        ids, asked = count(1), dict[int, share.ShareRecord]()
        call = client.share.Consume()
        subscribe = share.ConsumeRequest.Subscribe(
            group_id=self.group_id, topics=[self._topic], member_id=member, decode=True, as_text=True
        )
        try:
            await call.write(share.ConsumeRequest(subscribe=subscribe, credit=CREDIT))
            while isinstance(response := await call.read(), share.ConsumeResponse):
                for result in response.results:
                    record = asked.pop(result.id)
                    if not result.error_code:
                        self.books.accepted[record.partition, record.offset] = record.text
                reply = share.ConsumeRequest(credit=len(response.records))
                for record in response.records:
                    self.books.delivered(record)
                    asked[ack := next(ids)] = record
                    reply.acknowledgements.append(_accept(ack, record))
                if response.records and self.acknowledging:
                    await call.write(reply)
        finally:
            call.cancel()


def _accept(number: int, record: share.ShareRecord) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        id=number,
        topic_id=record.topic_id,
        partition=record.partition,
        first_offset=record.offset,
        type=delivery.AcknowledgeType.ValueType(ACCEPT),
        lock_token=record.lock_token,
    )
