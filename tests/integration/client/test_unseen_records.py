"""Records that the application never received do not count as delivered: prefetched, stalled, at close."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sharebroker import ConsumerConfig, KafkaError, Record
from sharebroker.aio import ShareConsumer
from sharebroker.blocking.consumer import ShareConsumer as BlockingConsumer
from tests.integration.share_consumer.harness import TIMEOUT, Harness, accept_all, is_idle, poll, poll_records
from tests.testkit.waiting import eventually

LOCK = 1.0
STALL = 3.2 * LOCK


@pytest.fixture
async def harness(server: str) -> AsyncIterator[Harness]:
    async with Harness(server) as harness:
        yield harness


async def short_locks(harness: Harness, lock: float = LOCK) -> str:
    return await harness.new_group(share_record_lock_duration_ms=round(lock * 1000))


async def counts(consumer: ShareConsumer, number: int) -> dict[int, int]:
    """Accepts this many records; returns the delivery counts by offset."""
    records = await poll_records(consumer, number, accept=True)
    return {record.offset: record.delivery_count for record in records}


async def each_by_itself(harness: Harness) -> None:
    for _ in range(100):
        await harness.produce(1)


async def in_one_batch(harness: Harness) -> None:
    await harness.produce(100)


SHAPES = [(each_by_itself, "batch_optimized"), (in_one_batch, "record_limit")]


@pytest.mark.parametrize(("produce", "mode"), SHAPES)
@pytest.mark.parametrize("prefetch", [0, 1000])
async def test_poll_counts_deliveries_of_returned_records_only(
    harness: Harness, produce: Callable[[Harness], Awaitable[None]], mode: str, prefetch: int
) -> None:
    await produce(harness)
    group = await harness.new_group()
    consumer = await harness.consumer(
        group, share_acquire_mode=mode, prefetch_records=prefetch, max_poll_records=1
    )
    (record,) = await poll(consumer)
    record.release()
    await consumer.close()
    found = await counts(await harness.consumer(group), 100)
    assert found == {offset: 2 if offset == record.offset else 1 for offset in range(100)}


async def test_iteration_counts_deliveries_of_yielded_records_only(harness: Harness) -> None:
    await harness.produce(100)
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    async for record in consumer:
        if record.offset == 1:
            break
        record.accept()
    await consumer.close()
    found = await counts(await harness.consumer(group), 99)
    assert found == {offset: 2 if offset == 1 else 1 for offset in range(1, 100)}


async def test_blocking_iteration_counts_yielded_records_only(harness: Harness) -> None:
    await harness.produce(100)
    group = await harness.new_group()

    def look() -> None:
        with BlockingConsumer(harness.server, group, [harness.topic]) as consumer:
            next(iter(consumer)).release()

    await asyncio.to_thread(look)
    found = await counts(await harness.consumer(group), 100)
    assert found == {offset: 2 if offset == 0 else 1 for offset in range(100)}


async def test_unsubscribe_undoes_unseen_records(harness: Harness) -> None:
    await harness.produce_singly(20)
    group = await harness.new_group()
    consumer = await harness.consumer(group, max_poll_records=1)
    (record,) = await poll(consumer)
    await eventually(lambda: consumer._engine._queue._batches)
    await consumer.unsubscribe()
    found = await counts(await harness.consumer(group), 20)
    assert found == {offset: 2 if offset == record.offset else 1 for offset in range(20)}


async def test_without_prefetch_other_members_get_the_rest(harness: Harness) -> None:
    await harness.produce_singly(20)
    group = await harness.new_group()
    first = await harness.consumer(group, max_poll_records=1, prefetch_records=0)
    (record,) = await poll(first)
    others = await counts(await harness.consumer(group), 19)
    assert others == {offset: 1 for offset in range(20) if offset != record.offset}
    await record.accept()


async def quickly(consumer: ShareConsumer, polls: int) -> int:
    """Polls like an application that is fast enough to be sent records ahead; returns how many it
    accepted.
    """
    accepted = 0
    for _ in range(polls):
        records = await poll(consumer)
        accept_all(records)
        accepted += len(records)
    return accepted


async def accepted_too_late(records: list[Record]) -> set[int]:
    """Accepts records; returns the offsets of those whose lock was lost before."""
    lost: set[int] = set()
    for record, acknowledgement in [(record, record.accept()) for record in records]:
        try:
            await acknowledgement
        except KafkaError:
            lost.add(record.offset)
    return lost


# A renewal needs the client, a gateway and a leader to run once in half a lock duration. A busy machine may
# delay that by seconds, so the case with renewal has a lock that is longer than most such delays. A lock that
# is lost nevertheless is none of an unseen record.
@pytest.mark.parametrize(("auto_renew", "lock"), [(False, LOCK), (True, 5 * LOCK)])
async def test_stalled_application_loses_no_unseen_record(
    harness: Harness, auto_renew: bool, lock: float
) -> None:
    await harness.produce_singly(100)
    group = await short_locks(harness, lock)
    consumer = await harness.consumer(group, max_poll_records=5, auto_renew=auto_renew)
    accepted = await quickly(consumer, 4)
    held = await poll(consumer)
    deadlines = [record.deadline for record in held]
    await asyncio.sleep(2.2 * lock)  # the test is about elapsed time: two lock durations
    renewed = [record.deadline > deadline for record, deadline in zip(held, deadlines, strict=True)]
    assert renewed == [auto_renew] * len(held)
    lost = await accepted_too_late(held)
    if not auto_renew:
        assert lost == {record.offset for record in held}
    again = await counts(consumer, 100 - accepted - len(held) + len(lost))
    assert again == {offset: 2 if offset in lost else 1 for offset in again}
    assert await is_idle(consumer)
    assert await harness.lag(group) == 0


async def test_other_members_continue_while_one_stalls(harness: Harness) -> None:
    await harness.produce_singly(50)
    group = await short_locks(harness)
    first = await harness.consumer(group, max_poll_records=1)
    await quickly(first, 10)
    (record,) = await poll(first)
    others = await counts(await harness.consumer(group), 40)
    assert others == {offset: 2 if offset == record.offset else 1 for offset in range(10, 50)}


async def test_stalled_iteration_loses_no_unseen_record(harness: Harness) -> None:
    await harness.produce(100)
    group = await short_locks(harness)
    consumer = await harness.consumer(group)
    found: dict[int, int] = {}
    async for record in consumer:
        if record.offset == 10 and record.delivery_count == 1:
            await asyncio.sleep(STALL)
            continue
        await record.accept()
        found[record.offset] = record.delivery_count
        if len(found) == 100:
            break
    assert found == {offset: 2 if offset == 10 else 1 for offset in range(100)}


async def test_stalled_blocking_application_loses_no_unseen_record(harness: Harness) -> None:
    await harness.produce_singly(50)
    group = await short_locks(harness)

    def work() -> dict[int, int]:
        found: dict[int, int] = {}
        with BlockingConsumer(harness.server, group, [harness.topic], ConsumerConfig()) as consumer:
            for record in consumer:
                if len(found) == 10 and record.delivery_count == 1:
                    threading.Event().wait(STALL)
                record.accept().result(TIMEOUT) if not record.lock_lost else None
                if not record.lock_lost:
                    found[record.offset] = record.delivery_count
                if len(found) == 50:
                    return found
        raise AssertionError

    found = await asyncio.to_thread(work)
    assert sorted(found.values()) == [1] * 49 + [2]


async def test_blocked_event_loop_loses_no_record(harness: Harness) -> None:
    """The client cannot undo an acquisition then, but the leader sends no more to a client that does not
    react.
    """
    await harness.produce_singly(50)
    group = await short_locks(harness)
    await harness.configure(group, share_delivery_count_limit=3)
    consumer = await harness.consumer(group, max_poll_records=5)
    accepted = await quickly(consumer, 4)
    held = await poll(consumer)
    _hold_up(STALL)
    await eventually(lambda: all(record.lock_lost for record in held))
    accept_all(held)
    remaining = set(range(accepted, 50))
    async with asyncio.timeout(TIMEOUT):
        while remaining:  # on a busy machine some are delivered for the first time, others for the third
            records = await consumer.poll(1.0)
            accept_all(records)
            remaining -= {record.offset for record in records}


def _hold_up(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        threading.Event().wait(0.1)


async def test_released_record_is_not_sent_without_credit(harness: Harness) -> None:
    await harness.produce(1)
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    for delivery in (1, 2, 3):
        (record,) = await poll(consumer)
        assert record.delivery_count == delivery
        await record.release()
    await consumer.close()
    assert await counts(await harness.consumer(group), 1) == {0: 4}


async def test_implicit_mode_accepts_returned_records_only(harness: Harness) -> None:
    await harness.produce(100)
    group = await harness.new_group()
    consumer = await harness.consumer(group, share_acknowledgement_mode="implicit")
    given: list[Record] = []
    async for record in consumer:
        given.append(record)
        if len(given) == 10:
            break
    results = await consumer.commit()
    assert [result.offset for result in results] == list(range(10))
    await consumer.close()
    found = await counts(await harness.consumer(group), 90)
    assert found == dict.fromkeys(range(10, 100), 1)
