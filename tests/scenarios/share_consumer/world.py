"""What every scenario needs: topics and groups of its own on a running server, consumers that get closed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from time import monotonic
from typing import Any

from sharebroker import Admin, ConsumerConfig, Producer, ProducerConfig, Record, ShareConsumer

PATIENCE = 20.0
QUIET = 0.4


class World:
    """One scenario's share of a server."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._stack = contextlib.ExitStack()
        self.admin = self._stack.enter_context(Admin(server))
        self._producer = self._stack.enter_context(Producer(server, ProducerConfig(linger_ms=60_000)))
        self.topic = self.new_topic()

    def close(self) -> None:
        self._stack.close()

    def new_topic(self, partitions: int = 1) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        self.admin.create_topic(name, partitions)
        return name

    def new_group(self, reset: str | None = "earliest", **configs: str) -> str:
        """A group's name; settings are written with underscores for `.`."""
        name = f"group-{uuid.uuid4().hex[:12]}"
        if reset is not None:
            configs["share_auto_offset_reset"] = reset
        if configs:
            self.admin.alter_group_configs(name, {k.replace("_", "."): v for k, v in configs.items()})
        return name

    def produce(self, count: int = 1, topic: str | None = None, **record: Any) -> None:
        """`count` records with values 0, 1, …, in one batch where one partition is all there is."""
        for n in range(count):
            self._producer.send(topic or self.topic, b"%d" % n, **record)
        self._producer.flush()

    def produce_singly(self, count: int, topic: str | None = None) -> None:
        """As `produce`, each record in a batch of its own."""
        for _ in range(count):
            self.produce(1, topic)

    def consumer(self, group: str, topics: Sequence[str] | None = None, **config: Any) -> ShareConsumer:
        """A consumer of the scenario's topic, closed when the scenario ends."""
        consumer = ShareConsumer(self.server, group, config=ConsumerConfig(**config))
        self._stack.callback(consumer.close, 5.0)
        wanted = [self.topic] if topics is None else topics
        if wanted:
            consumer.subscribe(wanted)
        return consumer


def take(consumer: ShareConsumer, count: int, accept: bool = False) -> list[Record]:
    """Poll until `count` records have come, in one poll or several; `accept` them, or the caller does."""
    taken: list[Record] = []
    deadline = monotonic() + PATIENCE
    while len(taken) < count:
        records = consumer.poll(1.0)
        taken += records
        if accept:
            for record in records:
                record.accept()
        assert monotonic() < deadline, f"only {len(taken)} of {count} records came"
    assert len(taken) == count, taken
    return taken


def poll(consumer: ShareConsumer) -> list[Record]:
    """One poll that is sure to find records, if there are any."""
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        records = consumer.poll(1.0)
        if records:
            return records
    raise AssertionError("no records came")


def nothing_comes(consumer: ShareConsumer) -> bool:
    """Whether a poll stays empty."""
    return consumer.poll(QUIET) == []


def offsets(records: Sequence[Record]) -> list[int]:
    return [record.offset for record in records]


def accept_all(records: Sequence[Record]) -> None:
    for record in records:
        record.accept()
