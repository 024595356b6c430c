"""Those who follow a shard's log: how far it goes, and waiting for more of it."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.stream_log.memory import Fault
from tests.unit.coordinator_runtime.ledger import Put, Rig

FOREVER = 60.0


async def test_the_end_is_what_is_durable() -> None:
    rig = await Rig().opened()
    await rig.put("a", "1", "2")
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("3",)), timeout=5)
    assert rig.shard.end() == 2
    rig.memory.release()
    await under_way
    assert rig.shard.end() == 3
    assert await rig.shard.read(1, 1) == [(2, "a=2")]


async def test_a_shard_that_is_not_surely_ours_has_no_end() -> None:
    rig = Rig()
    with pytest.raises(KafkaError) as loading:
        rig.shard.end()
    assert loading.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await rig.opened()
    rig.lease.held = False
    with pytest.raises(KafkaError) as lost:
        rig.shard.end()
    assert lost.value.code is ErrorCode.NOT_COORDINATOR


async def test_growth_wakes_everybody_who_waits() -> None:
    rig = await Rig().opened()
    followers = [asyncio.create_task(rig.shard.grown(0, FOREVER)) for _ in range(3)]
    await asyncio.sleep(0)
    await rig.put("a")
    await asyncio.gather(*followers)
    await rig.shard.grown(0, FOREVER)  # has grown already


async def test_one_who_leaves_takes_nobody_along() -> None:
    rig = await Rig().opened()
    stays, leaves = (asyncio.create_task(rig.shard.grown(0, FOREVER)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.wait({leaves})
    await rig.put("a")
    await stays


async def test_waiting_ends_in_time() -> None:
    rig = await Rig().opened()
    await rig.shard.grown(0, 0.001)
    assert rig.shard.end() == 0


async def test_a_shard_that_fails_or_closes_keeps_nobody_waiting() -> None:
    rig = await Rig().opened()
    follower = asyncio.create_task(rig.shard.grown(0, FOREVER))
    await asyncio.sleep(0)
    rig.memory.fail_next_append(Fault.NOT_WRITTEN)
    with pytest.raises(KafkaError):
        await rig.put("a")
    await follower
    await rig.active()
    follower = asyncio.create_task(rig.shard.grown(0, FOREVER))
    await asyncio.sleep(0)
    await rig.shard.close()
    await follower
