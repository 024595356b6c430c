"""Producers and consumers by Kafka's protocol, a thread each: librdkafka, and Java if its jars are there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer

from tests.chaos.history import History
from tests.chaos.sightings import Sighting
from tests.support.java_share_consumer import JavaShareConsumer, share_consumer
from tests.support.kafka_jars import CLIENTS, SERVER, is_there
from tests.testkit.checker.events import Share, Verdict

KAFKA: Final = "shipping"
"""The group of the consumers by Kafka's protocol."""

SETTINGS: Final[Mapping[str, str | int]] = {
    # A client has to leave a frozen server at about the time when its leases expire; the default is a minute.
    "socket.timeout.ms": "6000",
    "reconnect.backoff.max.ms": "500",
    "log_level": 2,
    "topic.metadata.refresh.interval.ms": "1000",
}
_TYPES: Final = {
    Verdict.ACCEPT: AcknowledgeType.ACCEPT,
    Verdict.RELEASE: AcknowledgeType.RELEASE,
    Verdict.REJECT: AcknowledgeType.REJECT,
}
_PAUSE: Final = 0.1
_FLUSH: Final = 60.0
JAVA_SETTINGS: Final[Mapping[str, str]] = {
    "share_acknowledgement_mode": "implicit",
    "request_timeout_ms": "6000",
    "reconnect_backoff_max_ms": "500",
    "default_api_timeout_ms": "12000",
}


class Worker:
    """Work in a thread of its own until `stop`."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=work, args=(self._over,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Requests the end of its work."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """Waits until its work is done."""
        self._thread.join(seconds)


class KafkaPublisher:
    """An idempotent producer of librdkafka."""

    def __init__(self, history: History, name: str, servers: str, topic: str, partitions: int) -> None:
        self.name = name
        self.sent = 0
        self.failed = 0
        self._history = history
        self._servers = servers
        self._topic = topic
        self._partitions = partitions

    def run(self, over: threading.Event) -> None:
        """Sends until `over` is set, then waits for the outcome of each record."""
        producer = Producer({**SETTINGS, "bootstrap.servers": self._servers, "enable.idempotence": True})
        while not over.is_set():
            for partition in range(self._partitions):
                value = f"{self.name}-{self.sent}"
                producer.produce(self._topic, value, partition=partition, on_delivery=self._record_outcome)
                self.sent += 1
            producer.poll(0)
            over.wait(_PAUSE)
        producer.flush(_FLUSH)

    def _record_outcome(self, error: Any, message: Any) -> None:
        if error is None and message.offset() is None:
            return  # a duplicate that the log recognised: it is stored, but its offset is unknown
        if error is None:
            place = (message.partition(), message.offset())
            self._history.published(f"publish {self.name}", self._topic, place, message.value().decode())
        else:
            self.failed += 1
            self._history.surfaced[f"{self.name}: {error.name()}"] += 1


class KafkaMember:
    """A share consumer of librdkafka with explicit acknowledgement."""

    def __init__(self, history: History, name: str, servers: str, topic: str, random: Random) -> None:
        self.steady = False
        self._history = history
        self._name = name
        self._servers = servers
        self._topic = topic
        self._random = random
        self._requested: dict[tuple[int, int], tuple[int, Verdict]] = {}

    def run(self, over: threading.Event) -> None:
        """Consumes until `over` is set."""
        settings = {
            **SETTINGS,
            "bootstrap.servers": self._servers,
            "group.id": KAFKA,
            "client.id": self._name,
            "share.acknowledgement.mode": "explicit",
        }
        consumer = ShareConsumer(settings)
        consumer.set_acknowledgement_commit_callback(self._record_acknowledgements)
        consumer.subscribe([self._topic])
        while not over.is_set():
            try:
                for message in consumer.poll(0.2):
                    if message.error() is None:
                        self._take(consumer, message)
                consumer.commit_async()
            except KafkaException as failure:
                self._history.surfaced[f"librdkafka: {failure.args[0].name()}"] += 1
        with suppress(KafkaException):
            consumer.close()

    def _take(self, consumer: ShareConsumer, message: Any) -> None:
        [verdict] = self._random.choices(list(_TYPES), [90, 7, 3])
        verdict = Verdict.ACCEPT if self.steady else verdict
        history, at = self._history, self._history.now()
        partition, offset, request_id = message.partition(), message.offset(), history.next_request_id()
        where, value = Share(KAFKA, self._topic, partition), message.value().decode()
        count = message.delivery_count()
        history.sighted(Sighting(at, where, offset, value, self._name, count, request_id, at, verdict))
        self._requested[partition, offset] = request_id, verdict
        consumer.acknowledge(message, _TYPES[verdict])

    def _record_acknowledgements(self, offsets: Mapping[Any, set[int]], failure: Any) -> None:
        for place, several in offsets.items():
            for offset in several:
                request = self._requested.pop((place.partition, offset), None)
                if request is not None and failure is None:
                    self._history.applied(KAFKA, request[0], place.partition)


class JavaMember:
    """Kafka's own share consumer; it accepts records when it commits."""

    def __init__(self, history: History, name: str, servers: str, topic: str) -> None:
        self._history = history
        self._name = name
        self._servers = servers
        self._topic = topic

    def run(self, over: threading.Event) -> None:
        """Consumes until `over` is set."""
        jars = CLIENTS[SERVER.version]
        with share_consumer(jars, self._servers, KAFKA, self._topic, **JAVA_SETTINGS) as consumer:
            while not over.is_set():
                try:
                    self._turn(consumer)
                except AssertionError as failure:
                    self._history.surfaced[f"java: {str(failure)[:60]}"] += 1
                    if "ended" in str(failure):
                        return

    def _turn(self, consumer: JavaShareConsumer) -> None:
        history, taken = self._history, []
        for record in consumer.poll(1, 0.5):
            at, where = history.now(), Share(KAFKA, self._topic, record.partition)
            request_id, count = history.next_request_id(), record.delivery_count
            sighting = Sighting(
                at, where, record.offset, record.value, self._name, count, request_id, at, Verdict.ACCEPT
            )
            history.sighted(sighting)
            taken.append(sighting)
        results = consumer.commit() if taken else {}
        for sighting in taken:
            if results.get(sighting.share.partition) == "well":
                history.applied(KAFKA, sighting.request_id, sighting.share.partition)


def java_is_there() -> bool:
    """Returns whether Kafka's jars and a Java compiler are there."""
    return shutil.which("javac") is not None and is_there(CLIENTS[SERVER.version])
