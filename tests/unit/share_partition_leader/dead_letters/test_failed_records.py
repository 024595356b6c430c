"""From a failed record to its letter: the real core, the mover and the leader of the dead letter topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.share_partition_leader import leadership
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.dead_letters.test_mover import DLQ, DLQ_NAME, LetterFixture
from tests.unit.share_partition_leader.harness import ACCEPT, REJECT, RELEASE, Harness


@pytest.fixture
async def fixture(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LetterFixture]:
    """Ten records, and a group with dead letters and two deliveries of each record."""
    original = leadership.share_partition_settings

    def enabled(*args: Any, **more: Any) -> Any:
        return replace(original(*args, **more), dead_letters=True, delivery_count_limit=2)

    monkeypatch.setattr(leadership, "share_partition_settings", enabled)
    await harness.append_to_catalog(TopicRecord(Topic(DLQ, DLQ_NAME, 2)))
    made = LetterFixture(harness)
    harness.leadership.archiving = made.mover.add  # before the partition is led
    await harness.publish(10)
    yield made
    await made.mover.stop()


async def until_start_offset(harness: Harness, offset: int) -> None:
    async def reached() -> bool:
        return await harness.start_offset() == offset

    await eventually(reached, timeout=100)


async def test_failed_records_get_letters_and_are_archived(harness: Harness, fixture: LetterFixture) -> None:
    await harness.acquire(client_id="c1")
    await harness.acknowledge((0, 2, REJECT), (3, 5, RELEASE), (6, 9, ACCEPT))
    await until_start_offset(harness, 3)
    assert await fixture.offsets() == [0, 1, 2]
    await harness.acquire()
    await harness.acknowledge((3, 5, RELEASE))
    await until_start_offset(harness, 10)
    assert await fixture.offsets() == [0, 1, 2, 3, 4, 5]
    (rejected, *_, exhausted) = (dict(letter.headers) for letter in await fixture.letters())
    assert rejected["__dlq.errors.message"] == b"Offset rejected by client."
    assert exhausted["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert exhausted["__dlq.errors.delivery.count"] == b"2"
    assert exhausted["__dlq.errors.copy"] == b"full"
    assert rejected["__dlq.errors.client.id"] == b"c1"


async def test_a_next_leader_writes_held_letters(harness: Harness, fixture: LetterFixture) -> None:
    topic = fixture.settings.topics.pop(DLQ_NAME)
    await harness.acquire()
    await harness.acknowledge((0, 2, REJECT), (3, 9, ACCEPT))
    await eventually(fixture.mover.partitions)
    (await harness.share_partition()).retire()
    fixture.settings.topics[DLQ_NAME] = topic
    await harness.share_partition()
    await until_start_offset(harness, 10)
    assert await fixture.offsets() == [0, 1, 2]
    assert dict((await fixture.letters())[0].headers)["__dlq.errors.member"] == b"m1"
