"""Cleanup of state whose topics were deleted without a notification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from sharebroker_server.share_coordinator.service.deleted_topics import DeletedTopicCleanup
from tests.testkit.waiting import eventually
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC
from tests.unit.share_coordinator.service.process import Process


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process()
    await process.start()
    await process.initialize(0, 1, 2, 3)
    await process.initialize(0, topic=OTHER_TOPIC)
    yield process
    await process.holder.stop()


async def remembered(process: Process, topic: str) -> list[bool]:
    inspected = [await process.inspect(index, topic) for index in range(process.topics[topic])]
    return [response.HasField("folded") for response in inspected]


async def test_only_state_of_deleted_topics_is_removed(process: Process) -> None:
    deleted: set[str] = set()
    cleanup = DeletedTopicCleanup(process.host, deleted.__contains__, 3600.0)
    await cleanup.apply()
    assert await remembered(process, TOPIC) == [True] * 4
    deleted.add(TOPIC)
    await cleanup.apply()
    assert await remembered(process, TOPIC) == [False] * 4
    assert await remembered(process, OTHER_TOPIC) == [True]


async def test_unavailable_shard_does_not_block_the_others(process: Process) -> None:
    *_, last = process.host.held()
    await last.close()
    with capture_logs() as logs:
        await DeletedTopicCleanup(process.host, {TOPIC, OTHER_TOPIC}.__contains__, 3600.0).apply()
    assert [entry["event"] for entry in logs] == ["deleted topic cleanup postponed"]
    assert await remembered(process, TOPIC) == [False] * 4


async def test_cleanup_continues_after_any_failure(process: Process) -> None:
    failures = [ZeroDivisionError()]

    def is_deleted(topic_id: str) -> bool:
        if failures:
            raise failures.pop()
        return True

    cleanup = DeletedTopicCleanup(process.host, is_deleted, 0.001)
    with capture_logs() as logs:
        cleanup.start()

        async def gone() -> bool:
            return not any(await remembered(process, TOPIC))

        await eventually(gone)
        await cleanup.stop()
    assert "deleted topic cleanup failed" in {entry["event"] for entry in logs}
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "deleted topic cleanup"]


async def test_stop_before_start_does_not_raise(process: Process) -> None:
    await DeletedTopicCleanup(process.host, lambda _: True, 1.0).stop()
