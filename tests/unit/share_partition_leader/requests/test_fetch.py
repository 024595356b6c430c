"""AcquireRecords: one fetch, from what is there or what comes in time."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.testkit.waiting import eventually
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import ACCEPT, GROUP, RELEASE, TOPIC, World, code
from tests.unit.share_partition_leader.world import world as started


def acquired(answer: pb.AcquireRecordsResponse.Partition) -> list[tuple[int, int, int]]:
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in answer.acquired]


async def waiting(world: World, task: asyncio.Task[object]) -> None:
    """Until a fetch waits in the share-partition."""
    share_partition = await world.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    assert not task.done()


async def test_a_fetch_gets_what_is_there_with_the_lock_it_holds(world: World) -> None:
    await world.publish(10)
    (answer,) = await world.acquire()
    assert acquired(answer) == [(0, 9, 1)]
    lock = answer.acquired[0]
    assert lock.lock_deadline_ms == round((asyncio.get_running_loop().time() + 30) * 1000)
    done = await world.acknowledge((0, 9, ACCEPT), token=lock.lock_token)
    assert not done.error_code
    assert await world.start_offset() == 10


async def test_the_answer_names_the_lock_duration_of_the_group(world: World) -> None:
    await world.configure("share.record.lock.duration.ms", "15000")
    request = pb.AcquireRecordsRequest(group_id="g", member_id="m")
    assert (await world.stub.AcquireRecords(request)).acquisition_lock_timeout_ms == 15_000


async def test_without_a_wait_an_idle_partition_is_answered_empty(world: World) -> None:
    before = asyncio.get_running_loop().time()
    (answer,) = await world.acquire()
    assert (answer.topic_id, answer.partition, answer.error_code, acquired(answer)) == (TOPIC, 0, 0, [])
    assert asyncio.get_running_loop().time() == before


async def test_partitions_that_are_asked_are_counted_once_a_fetch(world: World) -> None:
    await world.acquire()  # it has to be loaded
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000))
    await waiting(world, task)
    await world.publish(3)
    await task
    counts = (await world.share_partition()).core.counts
    assert (counts.fetches, counts.fetches_with_records) == (2, 1)


async def test_a_fetch_waits_for_what_is_published(world: World) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000))
    await waiting(world, task)
    await world.publish(3)
    (answer,) = await task
    assert acquired(answer) == [(0, 2, 1)]


async def test_a_fetch_waits_for_what_is_released(world: World) -> None:
    await world.publish(3)
    await world.acquire()
    task = asyncio.create_task(world.acquire(member="m2", max_wait_ms=60_000))
    await waiting(world, task)
    await world.acknowledge((1, 1, RELEASE))
    (answer,) = await task
    assert acquired(answer) == [(1, 1, 2)]


async def test_fetches_that_gave_up_are_remembered_nowhere(world: World) -> None:
    for _ in range(5):
        assert acquired(*await world.acquire(max_wait_ms=500)) == []
    assert not (await world.share_partition())._availability_listeners


async def test_a_fetch_that_is_cancelled_is_remembered_nowhere(world: World) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000))
    await waiting(world, task)
    task.cancel()
    await asyncio.wait([task])
    assert not (await world.share_partition())._availability_listeners


async def test_fewer_bytes_than_asked_for_come_when_the_time_is_up(world: World) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=1000, min_bytes=100_000))
    await world.publish(3)
    await settle()
    await world.publish(2)
    (answer,) = await task
    assert acquired(answer) == [(0, 2, 1), (3, 4, 1)]


async def test_a_fetch_ends_as_soon_as_it_has_the_bytes_it_asked_for(world: World) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000, min_bytes=150))
    await waiting(world, task)
    before = asyncio.get_running_loop().time()
    await world.publish(3, size=200)
    assert acquired(*await task) == [(0, 2, 1)]
    assert asyncio.get_running_loop().time() - before < 1


async def test_enough_bytes_of_the_first_that_is_loaded_are_an_answer() -> None:
    async with started() as world:
        await world.create_topic(partitions=2)
        for partition in range(2):
            await world.publish(3, partition)
        first = await world.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(answer) for answer in first] == [[(0, 2, 1)], []]
        await world.publish(2)
        both = await world.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(answer) for answer in both] == [[(3, 4, 1)], [(0, 2, 1)]]


async def test_records_and_bytes_are_limited_over_all_partitions() -> None:
    async with started() as world:
        await world.create_topic(partitions=3)
        for partition in range(3):
            await world.publish(10, partition)
        first, second, third = await world.acquire(15, partitions=range(3), acquire_mode=1)
        assert [len(acquired(a)) and acquired(a)[0][:2] for a in (first, second, third)] == [
            (0, 9),
            (0, 4),
            0,
        ]
        again = await world.acquire(100, partitions=range(3), max_bytes=1)
        assert [acquired(answer) for answer in again] == [[], [(5, 9, 1)], []]


async def test_no_room_is_no_records(world: World) -> None:
    await world.publish(3)
    assert acquired(*await world.acquire(0)) == []


async def test_an_error_of_one_partition_is_told_at_once_beside_the_records_of_others(world: World) -> None:
    await world.publish(3)
    before = asyncio.get_running_loop().time()
    fine, bad = await world.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert acquired(fine) == [(0, 2, 1)]
    assert (code(bad), acquired(bad)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    idle, bad = await world.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert (code(idle), code(bad)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert asyncio.get_running_loop().time() == before


async def test_records_that_are_no_longer_in_memory_come_without_a_wait_too(world: World) -> None:
    await world.publish(2)
    await world.chill()
    assert acquired(*await world.acquire()) == [(0, 1, 1)]
    await world.publish(1)
    assert acquired(*await world.acquire()) == [(2, 2, 1)]


async def test_a_store_that_cannot_be_read_is_an_error_of_the_partition(world: World) -> None:
    await world.publish(1)
    await world.chill()
    world.records.away = True
    (answer,) = await world.acquire(max_wait_ms=60_000)
    assert code(answer) is ErrorCode.KAFKA_STORAGE_ERROR
    world.records.away = False
    assert acquired(*await world.acquire()) == [(0, 0, 1)]


async def test_what_was_acquired_is_answered_when_the_partition_fails_later(world: World) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000, min_bytes=100_000))
    await world.publish(3)
    await eventually(world.leadership.partitions()[0].loaded)
    await waiting(world, task)
    await world.lose()
    (answer,) = await task
    assert (acquired(answer), answer.error_code) == ([(0, 2, 1)], 0)


async def test_a_fetch_that_waits_goes_on_with_the_successor_of_a_retired_share_partition(
    world: World,
) -> None:
    task = asyncio.create_task(world.acquire(max_wait_ms=60_000))
    await waiting(world, task)
    former = await world.share_partition()
    former.retire()
    await eventually(lambda: world.leadership.partitions()[0].loaded() not in ([], [former]))
    await world.publish(1)
    assert acquired(*await task) == [(0, 0, 1)]


async def test_a_fetch_of_a_partition_led_elsewhere_says_so(world: World) -> None:
    await world.share_partition()
    await world.lose()
    (answer,) = await world.acquire(max_wait_ms=60_000)
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_unknown_mode_is_refused(world: World) -> None:
    with pytest.raises(KafkaError) as refused:
        await world.acquire(acquire_mode=7)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.violations[0].field == "acquire_mode"


async def test_a_session_that_ended_acquires_nothing_by_a_fetch_that_still_waits(world: World) -> None:
    await world.publish(3)
    assert acquired((await world.acquire(session_id="s"))[0])
    late = asyncio.create_task(world.acquire(session_id="s", max_wait_ms=5000))
    await waiting(world, late)
    await world.stub.ReleaseMember(
        pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", session_id="s")  # it wakes the fetch
    )
    assert acquired((await late)[0]) == []
    assert acquired((await world.acquire(member="m2"))[0]) == [(0, 2, 2)]
