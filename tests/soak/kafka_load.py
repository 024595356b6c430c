"""The same load by Kafka's protocol: librdkafka's producer and share consumers, a thread each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from time import monotonic, time
from typing import Any, Final

from confluent_kafka import KafkaException, Producer, ShareConsumer

from tests.chaos.kafka_clients import SETTINGS, Worker
from tests.soak.load import AHEAD, CONSUMERS, GROUP, RECORD, SAMPLE

_TICK: Final = 0.05
_POLL: Final = 0.2
_LAST_WORDS: Final = 60.0


class KafkaLoad:
    """A producer and consumers; `servers` are their bootstrap addresses. `pace` in records a second."""

    def __init__(self, servers: str, topic: str, pace: float) -> None:
        self.pace = pace
        self.accepted = 0
        self.waits: list[tuple[float, float]] = []
        """A sample of (time of acceptance, seconds since publishing)."""
        self.surfaced: Counter[str] = Counter()
        self._servers = servers
        self._topic = topic
        self._sent = 0
        self._counting = threading.Lock()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Runs all clients until the end."""
        workers = [Worker(work) for work in (self._publish, *[self._consume] * CONSUMERS)]
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()
            await asyncio.gather(*(asyncio.to_thread(worker.join, _LAST_WORDS) for worker in workers))

    def _publish(self, over: threading.Event) -> None:
        """Publishes at the rate; records delayed by a pause are not sent later."""
        settings = {
            **SETTINGS,
            "bootstrap.servers": self._servers,
            "enable.idempotence": True,
            "linger.ms": 20,
        }
        producer = Producer(settings)
        owed, at = 0.0, monotonic()
        while not over.wait(_TICK):
            now = monotonic()
            owed, at = min(owed + (now - at) * self.pace, self.pace / 5), now
            producer.poll(0)
            if self._sent - self.accepted > self.pace * AHEAD:
                continue
            for _ in range(int(owed)):
                with contextlib.suppress(BufferError):  # its queue is full: the rate falls then
                    producer.produce(self._topic, RECORD.pack(time()))
                    self._sent += 1
            owed -= int(owed)
        producer.flush(_LAST_WORDS)

    def _consume(self, over: threading.Event) -> None:
        """Counts errors; a client recovers automatically."""
        settings = {**SETTINGS, "bootstrap.servers": self._servers, "group.id": GROUP}
        consumer = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
        published: dict[tuple[int, int], float] = {}
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, failure: self._record_acknowledgements(published, offsets, failure)
        )
        consumer.subscribe([self._topic])
        while not over.is_set():
            try:
                for message in consumer.poll(_POLL):
                    if message.error() is None:
                        _accept(consumer, message, published)
                consumer.commit_async()
            except KafkaException as failure:
                self._note(failure.args[0])
        with contextlib.suppress(KafkaException):
            consumer.close()

    def _record_acknowledgements(
        self, published: dict[tuple[int, int], float], offsets: Mapping[Any, set[int]], failure: Any
    ) -> None:
        now = time()
        for place, several in offsets.items():
            begun = [
                published.pop((place.partition, offset), None) for offset in several if offset % SAMPLE == 0
            ]
            if failure is not None:  # their locks are lost: they are redelivered
                self._note(failure)
                continue
            with self._counting:
                self.accepted += len(several)
                self.waits += [(now, now - at) for at in begun if at is not None]

    def _note(self, failure: Any) -> None:
        with self._counting:
            self.surfaced[failure.name() if hasattr(failure, "name") else str(failure)] += 1


def _accept(consumer: ShareConsumer, message: Any, published: dict[tuple[int, int], float]) -> None:
    consumer.acknowledge(message)
    if message.offset() % SAMPLE == 0:
        published[message.partition(), message.offset()] = RECORD.unpack(message.value())[0]
