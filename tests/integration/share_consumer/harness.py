"""The harness of a scenario: its own topics and groups on a running server; it closes its consumers."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from sharebroker import ConsumerConfig, ProducerConfig, Record, TopicPartition
from sharebroker.admin_model import GroupOffset
from sharebroker.aio import Admin, Producer, ShareConsumer
from tests.testkit.waiting import eventually

TIMEOUT = 30.0
QUIET = 0.4


class Harness:
    """The topics, groups and clients of one scenario."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._stack = contextlib.AsyncExitStack()
        self.topic = ""

    async def __aenter__(self) -> Self:
        self.admin = await self._stack.enter_async_context(Admin(self.server))
        self._producer = await self._stack.enter_async_context(
            Producer(self.server, ProducerConfig(linger_ms=60_000))
        )
        self.topic = await self.new_topic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def new_topic(self, partitions: int = 1) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        await self.admin.create_topic(name, partitions)
        return name

    async def new_group(self, reset: str | None = "earliest", **configs: str | int) -> str:
        """A group's name; configs are written with underscores for `.`."""
        name = f"group-{uuid.uuid4().hex[:12]}"
        if reset is not None:
            configs["share_auto_offset_reset"] = reset
        if configs:
            await self.configure(name, **configs)
        return name

    async def configure(self, group: str, **configs: str | int) -> None:
        """Changes a group's configs, written with underscores for `.`."""
        await self.admin.alter_group_configs(group, {k.replace("_", "."): str(v) for k, v in configs.items()})

    async def produce(self, count: int = 1, topic: str | None = None, **record: Any) -> None:
        """Publishes records with values 0, 1, …, in one batch if the topic has one partition."""
        for n in range(count):
            await self._producer.send(topic or self.topic, b"%d" % n, **record)
        await self._producer.flush()

    async def produce_singly(self, count: int, topic: str | None = None) -> None:
        """Publishes like `produce`, but each record in a batch of its own."""
        for _ in range(count):
            await self.produce(1, topic)

    async def consumer(
        self, group: str | None = None, topics: Sequence[str] | None = None, **config: Any
    ) -> ShareConsumer:
        """A consumer of the scenario's topic in a group of its own, by default.

        It is closed when the scenario ends.
        """
        consumer = ShareConsumer(
            self.server, group or await self.new_group(), config=ConsumerConfig(**config)
        )
        self._stack.push_async_callback(consumer.close, 5.0)
        subscribed = [self.topic] if topics is None else topics
        if subscribed:
            await consumer.subscribe(subscribed)
        return consumer

    async def assigned(self, group: str, members: int = 1, partitions: int = 1) -> None:
        """Waits until this many members have an assignment, of this many partitions in total."""

        async def are() -> bool:
            if group not in [listed.group_id for listed in await self.admin.list_groups()]:
                return False
            of = [m.assignment for m in (await self.admin.describe_group(group)).members if m.assignment]
            given = {(topic, n) for assignment in of for topic, ns in assignment.items() for n in ns}
            return len(of) == members and len(given) == partitions

        await eventually(are)

    async def offset(self, group: str) -> GroupOffset | None:
        """The group's position in the scenario's topic."""
        return (await self.admin.group_offsets(group)).get(TopicPartition(self.topic, 0))

    async def lag(self, group: str) -> int | None:
        """The group's lag in the scenario's topic, as of the last state write."""
        offset = await self.offset(group)
        return None if offset is None else offset.lag


async def poll_records(consumer: ShareConsumer, count: int, accept: bool = False) -> list[Record]:
    """Polls until `count` records arrived; accepts them if `accept`, otherwise one poll must return all."""
    received: list[Record] = []
    async with asyncio.timeout(TIMEOUT):
        while len(received) < count:
            records = await consumer.poll(1.0)
            received += records
            if accept:
                accept_all(records)
    assert len(received) == count, received
    return received


async def poll(consumer: ShareConsumer) -> list[Record]:
    """Polls until records arrive, and returns them."""
    async with asyncio.timeout(TIMEOUT):
        while not (records := await consumer.poll(1.0)):
            pass
    return records


async def is_idle(consumer: ShareConsumer) -> bool:
    """Whether a poll stays empty."""
    return await consumer.poll(QUIET) == []


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


def accept_all(records: Iterable[Record]) -> None:
    for record in records:
        record.accept()
