"""Steady load with the public asyncio client: records at a fixed rate, each accepted separately."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator
from struct import Struct
from time import time
from typing import Final

from sharebroker.aio import Producer, ShareConsumer
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.records.record import Acknowledgement, Record

GROUP: Final = "soak"
CONSUMERS: Final = 4
RECORD: Final = Struct(">d92x")
"""The publishing time (seconds since the Unix epoch), padded to 100 bytes."""

_TICK: Final = 0.02
_POLL: Final = 1.0
SAMPLE: Final = 20
"""One in this many records is timed."""

AHEAD: Final = 1.0
"""Seconds of work that may be published and not accepted: more would measure the queue, not the system."""


class Load:
    """A producer and consumers; `addresses` are their gateways. `pace` in records a second."""

    def __init__(self, addresses: list[str], topic: str, pace: float) -> None:
        self.pace = pace
        self.accepted = 0
        self.waits: list[tuple[float, float]] = []
        """A sample of (time of acceptance, seconds since publishing)."""
        self.surfaced: Counter[str] = Counter()
        self._addresses = addresses
        self._topic = topic
        self._sent = 0

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Runs all clients until the end."""
        begin = [self._addresses[number % len(self._addresses)] for number in range(CONSUMERS)]
        tasks = [asyncio.create_task(work) for work in (self._publish(), *map(self._consume, begin))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()

    async def _publish(self) -> None:
        """Publishes at the rate; records delayed by a pause are not sent later."""
        loop = asyncio.get_running_loop()
        async with Producer(self._addresses[0]) as producer:
            owed, at = 0.0, loop.time()
            while True:
                await asyncio.sleep(_TICK)
                now = loop.time()
                owed, at = min(owed + (now - at) * self.pace, self.pace / 10), now
                if self._sent - self.accepted > self.pace * AHEAD:
                    continue
                for _ in range(int(owed)):
                    await producer.send(self._topic, RECORD.pack(time()))
                    self._sent += 1
                owed -= int(owed)

    async def _consume(self, address: str) -> None:
        """Consumes; counts each end of the membership and joins again."""
        while True:
            try:
                async with ShareConsumer(address, GROUP, [self._topic], ConsumerConfig()) as consumer:
                    await self._work(consumer)
            except KafkaError as failure:
                self.surfaced[failure.code.name] += 1

    async def _work(self, consumer: ShareConsumer) -> None:
        pending: deque[tuple[Record, Acknowledgement]] = deque()
        while True:
            pending.extend((record, record.accept()) for record in await consumer.poll(_POLL))
            while pending and pending[0][1].done:
                await self._record_outcome(*pending.popleft())

    async def _record_outcome(self, record: Record, acknowledgement: Acknowledgement) -> None:
        try:
            await acknowledgement
        except KafkaError:  # its lock is lost: it is redelivered
            return
        self.accepted += 1
        if self.accepted % SAMPLE == 0 and record.value is not None:
            now = time()
            self.waits.append((now, now - RECORD.unpack(record.value)[0]))
