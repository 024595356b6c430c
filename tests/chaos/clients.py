"""Producers and consumers over gRPC, with the Python client, as in a user's program."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Final

from sharebroker.aio import Producer, ShareConsumer
from sharebroker.consumer.config import ConsumerConfig
from sharebroker.producer.buffer import Publication
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import Record
from tests.chaos.history import History
from tests.testkit.checker.events import Delivered, MemberLeft, Share, Verdict

GRPC: Final = "billing"
"""The group of the consumers over gRPC."""

PAUSE: Final = 0.1
"""Seconds between two records of a producer for one partition."""

_MOODS: Final = {Verdict.ACCEPT: 88, Verdict.RELEASE: 6, Verdict.REJECT: 3, Verdict.RENEW: 3}


class Publisher:
    """Sends a record to each partition in turn, and continues while earlier records wait for their
    acknowledgement.
    """

    def __init__(self, history: History, name: str, address: str, topic: str, partitions: int) -> None:
        self.name = name
        self.sent = 0
        self.failed = 0
        self._history = history
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self, over: asyncio.Event) -> None:
        """Sends until `over` is set, then waits for the outcome of each record."""
        async with Producer(self._address) as producer:
            while not over.is_set():
                for partition in range(self._partitions):
                    value = f"{self.name}-{self.sent}"
                    self.sent += 1
                    sent = await producer.send(self._topic, value.encode(), partition=partition)
                    task = asyncio.create_task(self._record_outcome(sent, value))
                    self._waiting.add(task)
                    task.add_done_callback(self._waiting.discard)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), PAUSE)
        if self._waiting:
            await asyncio.wait(self._waiting)

    async def _record_outcome(self, sent: Publication, value: str) -> None:
        try:
            where = await sent
        except KafkaError as failure:
            self.failed += 1
            self._history.surfaced[f"{self.name}: {failure.code.name}"] += 1
        else:
            place = (where.partition, where.offset)
            self._history.published(f"publish {self.name}", where.topic, place, value)


class Member:
    """A consumer: accepts most records, some of them late, and releases some."""

    def __init__(self, history: History, name: str, address: str, topic: str, random: Random) -> None:
        self.name = name
        self.steady = False
        """Whether it accepts every record at once."""
        self._history = history
        self._address = address
        self._topic = topic
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Consumes until it is cancelled; counts each end of the membership and joins again."""
        config = ConsumerConfig(max_poll_records=20, prefetch_records=20)
        while True:
            consumer = ShareConsumer(self._address, GRPC, [self._topic], config)
            try:
                async with consumer:
                    async for record in consumer:
                        self._take(record, consumer.member_id)
            except KafkaError as failure:
                self._history.surfaced[f"{self.name}: {failure.code.name}"] += 1
            finally:
                self._history.events.append(MemberLeft(self._history.now(), GRPC, consumer.member_id))

    def _take(self, record: Record, member: str) -> None:
        where, history = Share(GRPC, record.topic, record.partition), self._history
        text, token = (record.value or b"").decode(), record.acquisition.token
        deadline = history.on_server(record.deadline)
        count, at = record.delivery_count, history.now()
        history.delivered(
            Delivered(at, where, record.offset, text, member, token, count, deadline, streamed=True)
        )
        task = asyncio.create_task(self._decide(record, where))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, record: Record, where: Share) -> None:
        if not self.steady and self._random.random() < 0.05:
            await asyncio.sleep(self._random.uniform(0.0, 3.0))
        [verdict] = self._random.choices(list(_MOODS), list(_MOODS.values()))
        verdict = Verdict.ACCEPT if self.steady else verdict
        if verdict is Verdict.RENEW and await self._acknowledge(record, where, verdict):
            verdict = Verdict.ACCEPT
        if verdict is not Verdict.RENEW:
            await self._acknowledge(record, where, verdict)

    async def _acknowledge(self, record: Record, where: Share, verdict: Verdict) -> bool:
        """Acknowledges; returns whether that succeeded. After an error another member may have the record."""
        request_id = self._history.requested(where, record.offset, record.acquisition.token, verdict)
        acknowledge = {
            Verdict.ACCEPT: record.accept,
            Verdict.RELEASE: record.release,
            Verdict.REJECT: record.reject,
            Verdict.RENEW: record.renew,
        }[verdict]
        try:
            await acknowledge()
        except KafkaError:
            return False
        renewed = self._history.on_server(record.deadline) if verdict is Verdict.RENEW else 0.0
        self._history.applied(GRPC, request_id, where.partition, renewed)
        return True
