"""Delivery count, its limit, the isolation of records that fail often (ShareConsumerTest; see README.md)."""

from __future__ import annotations

from collections import Counter

from sharebroker.aio import ShareConsumer
from tests.integration.share_consumer.harness import Harness, is_idle, offsets, poll, poll_records
from tests.testkit.waiting import eventually


async def test_delivery_count_when_closing_explicit_session(
    harness: Harness,
) -> None:
    await harness.produce(2)
    group = await harness.new_group()
    consumer = await harness.consumer(group, max_poll_records=2, prefetch_records=0)
    records = await poll_records(consumer, 2)
    records[0].release()
    await consumer.close()
    again = await poll_records(await harness.consumer(group), 2)
    assert {record.offset: record.delivery_count for record in again} == {0: 2, 1: 2}


async def test_behavior_on_delivery_count_boundary(harness: Harness) -> None:
    await harness.produce(1)
    group = await harness.new_group(share_delivery_count_limit=3)
    consumer = await harness.consumer(group)
    (record,) = await poll(consumer)
    record.release()
    (record,) = await poll(consumer)
    assert record.delivery_count == 2
    await consumer.close()
    last = await harness.consumer(group)
    (record,) = await poll(last)
    assert record.delivery_count == 3
    await record.release()  # succeeds, but that was the last delivery
    assert await is_idle(last)
    assert await harness.lag(group) == 0


async def released_until_quiet(consumer: ShareConsumer) -> list[list[int]]:
    """Releases every delivered record; returns the offsets of each poll."""
    polls = []
    while records := await consumer.poll(1.0):
        polls.append(offsets(records))
        for record in records:
            record.release()
    return polls


async def thrown_back(harness: Harness, records: int, limit: int) -> list[list[int]]:
    """Publishes one batch of this many records and always releases them; returns the offsets of each poll."""
    await harness.produce(records)
    group = await harness.new_group(share_delivery_count_limit=limit)
    return await released_until_quiet(await harness.consumer(group, max_poll_records=records))


def times(polls: list[list[int]]) -> Counter[int]:
    return Counter(offset for poll in polls for offset in poll)


async def test_fetch_with_throttled_delivery(harness: Harness) -> None:
    """From the third failure on, batches shrink; the last delivery of each record contains only that
    record.
    """
    everything = list(range(100))
    assert await thrown_back(harness, 100, limit=5) == [
        *[everything] * 3,
        everything[:50],
        *[[offset] for offset in everything[:50]],
        everything[50:],
        *[[offset] for offset in everything[50:]],
    ]


async def test_fetch_with_throttled_delivery_batches_with_increased_delivery_limit(harness: Harness) -> None:
    polls = await thrown_back(harness, 512, limit=10)
    assert [len(records) for records in polls[:10]] == [512] * 5 + [256, 128, 64, 32, 1]
    assert times(polls) == dict.fromkeys(range(512), 10)
    assert all(
        len(records) == 1 for records in polls if times(polls[: polls.index(records)])[records[0]] == 9
    )


async def test_fetch_with_throttled_delivery_validate_delivery_count(harness: Harness) -> None:
    polls = await thrown_back(harness, 500, limit=10)
    assert [len(records) for records in polls[:10]] == [500] * 5 + [250, 125, 62, 31, 1]
    assert times(polls) == dict.fromkeys(range(500), 10)


async def test_fetch_with_throttled_delivery_batches_with_decreased_delivery_limit(harness: Harness) -> None:
    """With two deliveries there is nothing to isolate."""
    assert [len(records) for records in await thrown_back(harness, 512, limit=2)] == [512, 512]


async def test_fetch_with_throttled_delivery_batches_multiple_consumers(harness: Harness) -> None:
    """A record at its last delivery is not delivered together with another."""
    await harness.produce_singly(2)
    group = await harness.new_group(share_delivery_count_limit=5)
    one, two = (
        await harness.consumer(group, max_poll_records=1, prefetch_records=0),
        await harness.consumer(group),
    )
    (first,) = await poll(one)
    assert first.offset == 0
    for delivery in range(1, 5):
        (record,) = await poll(two)
        assert (record.offset, record.delivery_count) == (1, delivery)
        if delivery < 4:
            await record.release()
    await first.release()
    await record.release()
    await one.close()
    (alone,) = await poll(two)
    assert (alone.offset, alone.delivery_count) == (0, 2)
    alone.accept()
    (alone,) = await poll(two)
    assert (alone.offset, alone.delivery_count) == (1, 5)
    alone.accept()
    assert await is_idle(two)


async def test_last_delivery_is_isolated(harness: Harness) -> None:
    """A consumer that dies of one record must not consume the last deliveries of the others."""
    await harness.produce(4)
    group = await harness.new_group(share_delivery_count_limit=3, share_record_lock_duration_ms=1000)
    consumer = await harness.consumer(group)
    for _ in range(2):
        for record in await poll_records(consumer, 4):
            record.release()
    for offset in range(4):
        (record,) = await poll(consumer)  # it has room for hundreds
        assert (record.offset, record.delivery_count) == (offset, 3)
        if offset == 1:
            await eventually(lambda: record.lock_lost)  # noqa: B023  # it is waited for here
        else:
            record.accept()
    assert await is_idle(consumer)
    assert await harness.lag(group) == 0


async def test_release_with_a_delay(harness: Harness) -> None:
    """A record with a delayed release waits while others are delivered."""
    await harness.produce_singly(2)
    consumer = await harness.consumer(max_poll_records=1, prefetch_records=0)
    (record,) = await poll(consumer)
    await record.release(delay=1.0)
    came = await poll_records(consumer, 2, accept=True)
    assert [(record.offset, record.delivery_count) for record in came] == [(1, 1), (0, 2)]


async def test_dynamic_delivery_count_limit_decrease_archives_records(harness: Harness) -> None:
    await harness.produce(1)
    group = await harness.new_group(share_delivery_count_limit=5)
    consumer = await harness.consumer(group)
    for _ in range(2):
        (record,) = await poll(consumer)
        record.release()
    (record,) = await poll(consumer)
    await harness.configure(group, share_delivery_count_limit=3)
    await record.release()
    assert await is_idle(consumer)
    assert await harness.lag(group) == 0


async def test_dynamic_delivery_count_limit_increase_allows_more_deliveries(harness: Harness) -> None:
    await harness.produce(1)
    group = await harness.new_group(share_delivery_count_limit=3)
    consumer = await harness.consumer(group)
    for _ in range(2):
        (record,) = await poll(consumer)
        record.release()
    (record,) = await poll(consumer)
    await harness.configure(group, share_delivery_count_limit=5)
    record.release()
    for delivery in (4, 5):
        (record,) = await poll(consumer)
        assert record.delivery_count == delivery
        record.release()
    assert await is_idle(consumer)


async def test_dynamic_partition_max_record_locks(harness: Harness) -> None:
    """When all locks are in use nothing more is delivered, until a lock is free or the limit rises."""
    await harness.produce_singly(300)
    group = await harness.new_group(share_partition_max_record_locks=100)
    consumer = await harness.consumer(group, max_poll_records=100)
    held = await poll_records(consumer, 100)
    other = await harness.consumer(group)
    assert await is_idle(other)
    await harness.configure(group, share_partition_max_record_locks=200)
    taken = await poll_records(other, 100, accept=True)
    assert offsets(taken) == list(range(100, 200))
    for record in held:
        record.accept()
    await consumer.commit()
    assert offsets(await poll_records(other, 100, accept=True)) == list(range(200, 300))
