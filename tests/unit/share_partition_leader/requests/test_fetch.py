"""AcquireRecords: one fetch, from what is there or what comes in time."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, RELEASE, TOPIC, Harness, code
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.virtual_time import settle


def acquired(answer: pb.AcquireRecordsResponse.Partition) -> list[tuple[int, int, int]]:
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in answer.acquired]


async def waiting(harness: Harness, task: asyncio.Task[object]) -> None:
    """Until a fetch waits in the share-partition."""
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    assert not task.done()


async def test_fetch_returns_records_with_their_lock(harness: Harness) -> None:
    await harness.publish(10)
    (answer,) = await harness.acquire()
    assert acquired(answer) == [(0, 9, 1)]
    lock = answer.acquired[0]
    assert lock.lock_deadline_ms == round((asyncio.get_running_loop().time() + 30) * 1000)
    done = await harness.acknowledge((0, 9, ACCEPT), token=lock.lock_token)
    assert not done.error_code
    assert await harness.start_offset() == 10


async def test_response_has_the_lock_duration_of_the_group(harness: Harness) -> None:
    await harness.configure("share.record.lock.duration.ms", "15000")
    request = pb.AcquireRecordsRequest(group_id="g", member_id="m")
    assert (await harness.stub.AcquireRecords(request)).acquisition_lock_timeout_ms == 15_000


async def test_fetch_without_wait_is_empty_without_records(harness: Harness) -> None:
    before = asyncio.get_running_loop().time()
    (answer,) = await harness.acquire()
    assert (answer.topic_id, answer.partition, answer.error_code, acquired(answer)) == (TOPIC, 0, 0, [])
    assert asyncio.get_running_loop().time() == before


async def test_partitions_are_counted_once_per_fetch(harness: Harness) -> None:
    await harness.acquire()  # it has to be loaded
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.publish(3)
    await task
    counts = (await harness.share_partition()).core.counts
    assert (counts.fetches, counts.fetches_with_records) == (2, 1)


async def test_fetch_waits_for_published_records(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.publish(3)
    (answer,) = await task
    assert acquired(answer) == [(0, 2, 1)]


async def test_fetch_waits_for_released_records(harness: Harness) -> None:
    await harness.publish(3)
    await harness.acquire()
    task = asyncio.create_task(harness.acquire(member="m2", max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.acknowledge((1, 1, RELEASE))
    (answer,) = await task
    assert acquired(answer) == [(1, 1, 2)]


async def test_expired_fetch_leaves_no_listener(harness: Harness) -> None:
    for _ in range(5):
        assert acquired(*await harness.acquire(max_wait_ms=500)) == []
    assert not (await harness.share_partition())._availability_listeners


async def test_cancelled_fetch_leaves_no_listener(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    task.cancel()
    await asyncio.wait([task])
    assert not (await harness.share_partition())._availability_listeners


async def test_fewer_than_min_bytes_are_returned_at_the_end_of_the_wait(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=1000, min_bytes=100_000))
    await harness.publish(3)
    await settle()
    await harness.publish(2)
    (answer,) = await task
    assert acquired(answer) == [(0, 2, 1), (3, 4, 1)]


async def test_fetch_completes_with_min_bytes(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000, min_bytes=150))
    await waiting(harness, task)
    before = asyncio.get_running_loop().time()
    await harness.publish(3, size=200)
    assert acquired(*await task) == [(0, 2, 1)]
    assert asyncio.get_running_loop().time() - before < 1


async def test_first_loaded_partition_with_min_bytes_completes_the_fetch() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=2)
        for partition in range(2):
            await harness.publish(3, partition)
        first = await harness.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(answer) for answer in first] == [[(0, 2, 1)], []]
        await harness.publish(2)
        both = await harness.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(answer) for answer in both] == [[(3, 4, 1)], [(0, 2, 1)]]


async def test_limits_apply_to_all_partitions_together() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=3)
        for partition in range(3):
            await harness.publish(10, partition)
        first, second, third = await harness.acquire(15, partitions=range(3), acquire_mode=1)
        assert [len(acquired(a)) and acquired(a)[0][:2] for a in (first, second, third)] == [
            (0, 9),
            (0, 4),
            0,
        ]
        again = await harness.acquire(100, partitions=range(3), max_bytes=1)
        assert [acquired(answer) for answer in again] == [[], [(5, 9, 1)], []]


async def test_fetch_without_room_returns_no_records(harness: Harness) -> None:
    await harness.publish(3)
    assert acquired(*await harness.acquire(0)) == []


async def test_error_of_one_partition_completes_the_fetch(
    harness: Harness,
) -> None:
    await harness.publish(3)
    before = asyncio.get_running_loop().time()
    fine, bad = await harness.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert acquired(fine) == [(0, 2, 1)]
    assert (code(bad), acquired(bad)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    idle, bad = await harness.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert (code(idle), code(bad)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert asyncio.get_running_loop().time() == before


async def test_fetch_without_wait_reads_from_the_store(harness: Harness) -> None:
    await harness.publish(2)
    await harness.evict_hot_cache()
    assert acquired(*await harness.acquire()) == [(0, 1, 1)]
    await harness.publish(1)
    assert acquired(*await harness.acquire()) == [(2, 2, 1)]


async def test_read_failure_is_an_error_of_the_partition(harness: Harness) -> None:
    await harness.publish(1)
    await harness.evict_hot_cache()
    harness.records.away = True
    (answer,) = await harness.acquire(max_wait_ms=60_000)
    assert code(answer) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.records.away = False
    assert acquired(*await harness.acquire()) == [(0, 0, 1)]


async def test_acquired_records_are_returned_despite_a_later_error(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000, min_bytes=100_000))
    await harness.publish(3)
    await eventually(harness.leadership.partitions()[0].loaded)
    await waiting(harness, task)
    await harness.hand_over()
    (answer,) = await task
    assert (acquired(answer), answer.error_code) == ([(0, 2, 1)], 0)


async def test_waiting_fetch_uses_the_reloaded_share_partition(
    harness: Harness,
) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    former = await harness.share_partition()
    former.retire()
    await eventually(lambda: harness.leadership.partitions()[0].loaded() not in ([], [former]))
    await harness.publish(1)
    assert acquired(*await task) == [(0, 0, 1)]


async def test_fetch_from_another_leaders_partition_has_its_error(harness: Harness) -> None:
    await harness.share_partition()
    await harness.hand_over()
    (answer,) = await harness.acquire(max_wait_ms=60_000)
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_unknown_mode_is_rejected(harness: Harness) -> None:
    with pytest.raises(KafkaError) as refused:
        await harness.acquire(acquire_mode=7)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.violations[0].field == "acquire_mode"


async def test_ended_session_acquires_nothing_in_a_waiting_fetch(harness: Harness) -> None:
    await harness.publish(3)
    assert acquired((await harness.acquire(session_id="s"))[0])
    late = asyncio.create_task(harness.acquire(session_id="s", max_wait_ms=5000))
    await waiting(harness, late)
    await harness.stub.ReleaseMember(
        pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", session_id="s")  # it wakes the fetch
    )
    assert acquired((await late)[0]) == []
    assert acquired((await harness.acquire(member="m2"))[0]) == [(0, 2, 2)]
