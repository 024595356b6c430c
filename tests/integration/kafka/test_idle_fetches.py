"""Fetches that found nothing are repeated: repetition is cheap, and no record is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness, Readable, acquire
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, answered, part, runs
from tests.testkit.waiting import eventually

LONG = 15_000


class Idle:
    """A member whose session found nothing several times."""

    def __init__(self, kafka: KafkaClient, at: Readable) -> None:
        self.at = at
        self.member = unique("idle")
        self._kafka = kafka
        self._epochs = count()

    async def begin(self) -> None:
        await self.fetch({self.at.topic_id: [0]}, max_wait_ms=5)
        for _ in range(3):
            response = await self.fetch(max_wait_ms=5)
            assert (response.error_code, response.responses) == (0, [])

    async def fetch(self, partitions: dict[str, Sequence[int]] | None = None, **fields: Any) -> Any:
        """Sends the next request of the session."""
        epoch = next(self._epochs)
        return await self._kafka.share_fetch(self.at.group, self.member, epoch, partitions, **fields)

    def start(self, **fields: Any) -> asyncio.Task[Any]:
        """Sends the request without waiting for its response."""
        return asyncio.create_task(self.fetch(**{"max_wait_ms": LONG, **fields}))


@pytest.fixture
async def idle(kafka: KafkaClient, harness: Harness) -> Idle:
    idle = Idle(kafka, await harness.readable(records=0, partitions=2))
    await idle.begin()
    return idle


async def test_published_records_complete_an_idle_fetch(idle: Idle, harness: Harness) -> None:
    waiting = idle.start()
    await harness.client.publish(idle.at.topic, ["now"], partition=0)
    assert runs(answered(await waiting)[idle.at.topic_id, 0]) == [(0, 0, 1)]


async def test_records_between_idle_fetches_are_returned_at_once(idle: Idle, harness: Harness) -> None:
    await harness.client.publish(idle.at.topic, ["before"], partition=0)
    response = await idle.fetch(max_wait_ms=LONG)
    assert runs(answered(response)[idle.at.topic_id, 0]) == [(0, 0, 1)]


async def test_released_records_complete_an_idle_fetch(idle: Idle, harness: Harness) -> None:
    async with harness.connect() as other:
        name = unique("other")
        await harness.client.publish(idle.at.topic, ["held"], partition=0)
        assert await acquire(other, idle.at, name) == [(0, 0, 1)]
        assert (await idle.fetch(max_wait_ms=5)).responses == []
        waiting = idle.start()
        await other.share_acknowledge(idle.at.group, name, 1, {(idle.at.topic_id, 0): [(0, 0, [2])]})
        assert runs(answered(await waiting)[idle.at.topic_id, 0]) == [(0, 0, 2)]


async def test_partitions_may_be_added_and_removed(idle: Idle, harness: Harness) -> None:
    await harness.client.publish(idle.at.topic, ["of the other"], partition=1)
    added = await idle.fetch({idle.at.topic_id: [1]}, max_wait_ms=LONG)
    assert runs(answered(added)[idle.at.topic_id, 1]) == [(0, 0, 1)]
    assert (await idle.fetch(max_wait_ms=5)).responses == []
    forgotten = [part(78, "ForgottenTopic", topic_id=idle.at.topic_id, partitions=[0])]
    await idle.fetch(max_wait_ms=5, forgotten_topics_data=forgotten)
    await harness.client.publish(idle.at.topic, ["not requested"], partition=0)
    assert (await idle.fetch(max_wait_ms=50)).responses == []


async def test_fetch_without_partitions_returns_at_once(idle: Idle) -> None:
    async with asyncio.timeout(LONG / 1000):
        assert (await idle.fetch(max_wait_ms=60_000, max_records=0)).error_code == 0


async def test_final_request_does_not_wait(idle: Idle, kafka: KafkaClient) -> None:
    async with asyncio.timeout(LONG / 1000):
        ended = await kafka.share_fetch(idle.at.group, idle.member, -1, max_wait_ms=60_000)
    assert ended.error_code == 0
    assert (await idle.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_deleted_topic_is_reported(idle: Idle, harness: Harness) -> None:
    waiting = idle.start(max_wait_ms=500)
    await harness.client.delete(idle.at.topic)

    async def unknown_topic_reported() -> bool:
        nonlocal waiting
        found = answered(await waiting).get((idle.at.topic_id, 0))
        waiting = idle.start(max_wait_ms=500)
        return found is not None and found.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    await eventually(unknown_topic_reported)
    await waiting


async def test_empty_group_can_be_altered_while_a_session_is_idle(
    idle: Idle, harness: Harness, kafka: KafkaClient
) -> None:
    await harness.client.publish(idle.at.topic, ["a", "b", "c"], partition=0)
    assert runs(answered(await idle.fetch(max_wait_ms=LONG))[idle.at.topic_id, 0]) == [(0, 2, 1)]
    acks = {(idle.at.topic_id, 0): [(0, 2, [1])]}
    done = await idle.fetch(acks=acks, max_wait_ms=5)
    assert answered(done)[idle.at.topic_id, 0].acknowledge_error_code == 0
    assert (await idle.fetch(max_wait_ms=5)).responses == []
    moved = part(91, "AlterShareGroupOffsetsRequestPartition", partition_index=0, start_offset=1)
    topic = part(91, "AlterShareGroupOffsetsRequestTopic", topic_name=idle.at.topic, partitions=[moved])
    async with harness.connect() as admin:
        response = await admin.ask(91, 0, group_id=idle.at.group, topics=[topic])
    assert response.responses[0].partitions[0].error_code == 0
    assert runs(answered(await idle.fetch(max_wait_ms=LONG))[idle.at.topic_id, 0]) == [(1, 2, 1)]
