"""A watch by share-partitions that have no records."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.share_calls.messages import await_request
from sharebroker_server.share_partition_leader.requests.local_calls import LocalShareCalls
from sharebroker_server.share_partition_leader.requests.records_watch import ShareWatch
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import GROUP, TOPIC, World

PART = TopicIdPartition(TOPIC, 0)


def watched(world: World) -> ShareWatch:
    watch = LocalShareCalls(world.leadership).watch(GROUP, [PART])
    assert watch is not None
    assert watch.quiet
    return watch


async def test_time_passes_and_nothing_changes(world: World) -> None:
    await world.share_partition()
    watch = watched(world)
    assert not await watch.changes(5.0)
    assert watch.quiet


async def test_records_end_it(world: World) -> None:
    await world.share_partition()
    watch = watched(world)
    waiting = [asyncio.create_task(watch.changes(1000.0)) for _ in range(2)]
    await settle()
    await world.publish(1)
    assert await asyncio.gather(*waiting) == [True, True]
    assert not watch.quiet
    assert await watch.changes(1000.0)


async def test_it_ends_with_the_share_partition(world: World) -> None:
    share_partition = await world.share_partition()
    watch = watched(world)
    share_partition.retire()
    assert not watch.quiet


async def test_it_is_in_the_way_of_nothing_once_ended(world: World) -> None:
    share_partition = await world.share_partition()
    watch = watched(world)
    share_partition.drop_unused()
    assert not share_partition.retired
    watch.end()
    watch.end()
    share_partition.drop_unused()
    assert share_partition.retired


async def test_a_wait_that_is_given_up_leaves_nothing(world: World) -> None:
    await world.share_partition()
    watch = watched(world)
    waiting = asyncio.create_task(watch.changes(1000.0))
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    watch.end()
    assert not watch.quiet


async def test_there_is_none_where_there_are_records_or_no_state_yet(world: World) -> None:
    calls = LocalShareCalls(world.leadership)
    assert calls.watch(GROUP, [PART]) is None
    share_partition = await world.share_partition()
    await world.publish(1)
    assert not share_partition.is_quiet()
    assert calls.watch(GROUP, [PART]) is None
    share_partition.retire()
    assert not share_partition.is_quiet()


async def test_who_listens_is_told_once(world: World) -> None:
    await world.share_partition()
    watch = watched(world)
    told: list[str] = []
    listeners = {name: partial(told.append, name) for name in "abc"}
    for listener in listeners.values():
        watch.tell(listener)
    watch.tell_no_more(listeners["b"])
    watch.tell_no_more(listeners["b"])
    watch.end()
    watch.end()
    assert sorted(told) == ["a", "c"]


def awaiting(world: World, max_wait_ms: int) -> asyncio.Task[pb.AwaitRecordsResponse]:
    request = await_request(GROUP, [PART], max_wait_ms / 1000)
    return asyncio.ensure_future(world.stub.AwaitRecords(request))


async def test_another_process_is_answered_when_records_come(world: World) -> None:
    await world.share_partition()
    waiting = awaiting(world, 60_000)
    await settle()
    await world.publish(1)
    assert (await waiting).changed
    assert (await awaiting(world, 60_000)).changed  # there are some


async def test_another_process_is_told_when_its_time_is_up(world: World) -> None:
    share_partition = await world.share_partition()
    assert not (await awaiting(world, 5_000)).changed
    share_partition.drop_unused()
    assert share_partition.retired


async def test_another_process_that_goes_leaves_no_watch(world: World) -> None:
    share_partition = await world.share_partition()
    waiting = awaiting(world, 60_000)
    await settle()
    share_partition.drop_unused()
    assert not share_partition.retired
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await settle()
    share_partition.drop_unused()
    assert share_partition.retired


@pytest.mark.parametrize("max_wait_ms", [-1, 60_001])
async def test_nobody_waits_for_ever(world: World, max_wait_ms: int) -> None:
    refused = awaiting(world, max_wait_ms)
    with pytest.raises(KafkaError) as failure:
        await refused
    assert failure.value.code is ErrorCode.INVALID_REQUEST
