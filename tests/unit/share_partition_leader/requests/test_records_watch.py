"""A watch by share-partitions that have no records."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.messages import await_request
from sharebroker_server.share_partition_leader.requests.records_watch import LocalWatch
from tests.unit.share_partition_leader.harness import GROUP, TOPIC, Harness
from tests.unit.share_partition_leader.virtual_time import settle

PART = TopicIdPartition(TOPIC, 0)


def watched(harness: Harness) -> LocalWatch:
    watch = harness.local.watch(GROUP, [PART])
    assert watch is not None
    assert watch.quiet
    return watch


async def test_watch_lasts_while_nothing_changes(harness: Harness) -> None:
    await harness.share_partition()
    watch = watched(harness)
    assert not await watch.changes(5.0)
    assert watch.quiet


async def test_available_records_end_the_watch(harness: Harness) -> None:
    await harness.share_partition()
    watch = watched(harness)
    waiting = [asyncio.create_task(watch.changes(1000.0)) for _ in range(2)]
    await settle()
    await harness.publish(1)
    assert await asyncio.gather(*waiting) == [True, True]
    assert not watch.quiet
    assert await watch.changes(1000.0)


async def test_unload_ends_the_watch(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    watch = watched(harness)
    share_partition.retire()
    assert not watch.quiet


async def test_ended_watch_does_not_prevent_unload(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    watch = watched(harness)
    share_partition.drop_unused()
    assert not share_partition.retired
    watch.end()
    watch.end()
    share_partition.drop_unused()
    assert share_partition.retired


async def test_cancelled_wait_leaves_no_observer(harness: Harness) -> None:
    await harness.share_partition()
    watch = watched(harness)
    waiting = asyncio.create_task(watch.changes(1000.0))
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    watch.end()
    assert not watch.quiet


async def test_no_watch_with_records_or_without_state(harness: Harness) -> None:
    calls = harness.local
    assert calls.watch(GROUP, [PART]) is None
    share_partition = await harness.share_partition()
    await harness.publish(1)
    assert not share_partition.is_quiet()
    assert calls.watch(GROUP, [PART]) is None
    share_partition.retire()
    assert not share_partition.is_quiet()


async def test_observers_are_called_once(harness: Harness) -> None:
    await harness.share_partition()
    watch = watched(harness)
    told: list[str] = []
    listeners = {name: partial(told.append, name) for name in "abc"}
    for listener in listeners.values():
        watch.add_observer(listener)
    watch.remove_observer(listeners["b"])
    watch.remove_observer(listeners["b"])
    watch.end()
    watch.end()
    assert sorted(told) == ["a", "c"]


def awaiting(harness: Harness, max_wait_ms: int) -> asyncio.Task[pb.AwaitRecordsResponse]:
    request = await_request(GROUP, [PART], max_wait_ms / 1000)
    return asyncio.ensure_future(harness.stub.AwaitRecords(request))


async def test_await_records_returns_when_records_arrive(harness: Harness) -> None:
    await harness.share_partition()
    waiting = awaiting(harness, 60_000)
    await settle()
    await harness.publish(1)
    assert (await waiting).changed
    assert (await awaiting(harness, 60_000)).changed  # there are some


async def test_await_records_returns_at_the_end_of_its_wait(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    assert not (await awaiting(harness, 5_000)).changed
    share_partition.drop_unused()
    assert share_partition.retired


async def test_cancelled_await_records_leaves_no_watch(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    waiting = awaiting(harness, 60_000)
    await settle()
    share_partition.drop_unused()
    assert not share_partition.retired
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await settle()
    share_partition.drop_unused()
    assert share_partition.retired


@pytest.mark.parametrize("max_wait_ms", [-1, 60_001])
async def test_wait_of_await_records_is_limited(harness: Harness, max_wait_ms: int) -> None:
    refused = awaiting(harness, max_wait_ms)
    with pytest.raises(KafkaError) as failure:
        await refused
    assert failure.value.code is ErrorCode.INVALID_REQUEST
