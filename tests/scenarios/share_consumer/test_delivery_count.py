"""Delivery count, its limit, and the isolation of records that fail often.

Records are pushed while there is credit, so which poll brings which offsets is a matter of time; how often
each offset comes is not. The exact sequences are tests of the leader's core.
"""

from __future__ import annotations

from collections import Counter

from sharebroker import ShareConsumer
from tests.scenarios.share_consumer.world import World, nothing_comes, poll, take


def test_delivery_count_different_behavior_when_closing_session_with_explicit_acknowledgement(
    world: World,
) -> None:
    world.produce(2)
    group = world.new_group()
    consumer = world.consumer(group, max_poll_records=2, prefetch_records=0)
    records = take(consumer, 2)
    records[0].release()
    consumer.close()
    again = take(world.consumer(group), 2)
    assert {record.offset: record.delivery_count for record in again} == {0: 2, 1: 2}


def test_behavior_on_delivery_count_boundary(world: World) -> None:
    world.produce(1)
    group = world.new_group(share_delivery_count_limit="3")
    consumer = world.consumer(group, max_poll_records=1, prefetch_records=0)
    (record,) = poll(consumer)
    record.release()
    (record,) = poll(consumer)
    assert record.delivery_count == 2
    consumer.close()
    last = world.consumer(group, max_poll_records=1, prefetch_records=0)
    (record,) = poll(last)
    assert record.delivery_count == 3
    record.release().result(5)  # succeeds, but that was the last attempt
    assert nothing_comes(last)


def released_until_quiet(consumer: ShareConsumer) -> list[list[tuple[int, int]]]:
    """Release everything that comes; (offset, delivery count) of each poll."""
    polls = []
    while records := consumer.poll(1.0):
        polls.append([(record.offset, record.delivery_count) for record in records])
        for record in records:
            record.release()
    return polls


def test_fetch_with_throttled_delivery(world: World) -> None:
    world.produce(100)
    consumer = world.consumer(
        world.new_group(share_delivery_count_limit="5"), max_poll_records=100, prefetch_records=0
    )
    polls = released_until_quiet(consumer)
    assert [len(records) for records in polls[:3]] == [100, 100, 100]
    seen = Counter(delivery for records in polls for delivery in records)
    assert set(seen) == {(offset, count) for offset in range(100) for count in range(1, 6)}
    assert set(seen.values()) == {1}


def test_fetch_with_throttled_delivery_validate_delivery_count(world: World) -> None:
    world.produce(60)
    consumer = world.consumer(
        world.new_group(share_delivery_count_limit="10"), max_poll_records=60, prefetch_records=0
    )
    deliveries = Counter(offset for records in released_until_quiet(consumer) for offset, _ in records)
    assert deliveries == dict.fromkeys(range(60), 10)


def test_fetch_with_throttled_delivery_batches_with_decreased_delivery_limit(world: World) -> None:
    world.produce(512)
    consumer = world.consumer(
        world.new_group(share_delivery_count_limit="2"), max_poll_records=512, prefetch_records=0
    )
    assert [len(records) for records in released_until_quiet(consumer)] == [512, 512]


def test_dynamic_delivery_count_limit_decrease_archives_records(world: World) -> None:
    world.produce(1)
    group = world.new_group(share_delivery_count_limit="5")
    consumer = world.consumer(group, max_poll_records=1, prefetch_records=0)
    for _ in range(2):
        (record,) = poll(consumer)
        record.release()
    (record,) = poll(consumer)
    world.admin.alter_group_configs(group, {"share.delivery.count.limit": "3"})
    record.release().result(5)
    assert nothing_comes(consumer)


def test_dynamic_delivery_count_limit_increase_allows_more_deliveries(world: World) -> None:
    world.produce(1)
    group = world.new_group(share_delivery_count_limit="3")
    consumer = world.consumer(group, max_poll_records=1, prefetch_records=0)
    for _ in range(2):
        (record,) = poll(consumer)
        record.release()
    (record,) = poll(consumer)
    world.admin.alter_group_configs(group, {"share.delivery.count.limit": "5"})
    record.release()
    (record,) = poll(consumer)
    assert record.delivery_count == 4
