"""Readers of a shard's log: its end, and the wait for further records."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.memory.stream_log import Fault
from tests.unit.coordinator_runtime.harness import Harness, Put

FOREVER = 60.0


async def test_end_is_the_last_durable_position() -> None:
    harness = await Harness().opened()
    await harness.put("a", "1", "2")
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("3",)))
    assert harness.shard.end() == 2
    harness.memory.release()
    await under_way
    assert harness.shard.end() == 3
    assert await harness.shard.read(1, 1) == [(2, "a=2")]


async def test_end_needs_a_valid_lease() -> None:
    harness = Harness()
    with pytest.raises(KafkaError) as loading:
        harness.shard.end()
    assert loading.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await harness.opened()
    harness.lease.held = False
    with pytest.raises(KafkaError) as lost:
        harness.shard.end()
    assert lost.value.code is ErrorCode.NOT_COORDINATOR


async def test_append_wakes_all_waiters() -> None:
    harness = await Harness().opened()
    followers = [asyncio.create_task(harness.shard.wait_for_append(0, FOREVER)) for _ in range(3)]
    await asyncio.sleep(0)
    await harness.put("a")
    await asyncio.gather(*followers)
    await harness.shard.wait_for_append(0, FOREVER)  # has grown already


async def test_cancelled_waiter_does_not_affect_others() -> None:
    harness = await Harness().opened()
    stays, leaves = (asyncio.create_task(harness.shard.wait_for_append(0, FOREVER)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.wait({leaves})
    await harness.put("a")
    await stays


async def test_waiting_ends_in_time() -> None:
    harness = await Harness().opened()
    await harness.shard.wait_for_append(0, 0.001)
    assert harness.shard.end() == 0


async def test_failed_or_closed_shard_wakes_all_waiters() -> None:
    harness = await Harness().opened()
    follower = asyncio.create_task(harness.shard.wait_for_append(0, FOREVER))
    await asyncio.sleep(0)
    harness.memory.fail_next_append(Fault.NOT_WRITTEN)
    with pytest.raises(KafkaError):
        await harness.put("a")
    await follower
    await harness.active()
    follower = asyncio.create_task(harness.shard.wait_for_append(0, FOREVER))
    await asyncio.sleep(0)
    await harness.shard.close()
    await follower
