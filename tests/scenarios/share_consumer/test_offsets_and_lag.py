"""Administration of offsets, and lag (KIP-1226).

Left out: testSharePartitionLagOn…CoordinatorMovement (tests/fault).
"""

from __future__ import annotations

import pytest

from libs.testkit.waiting import until
from sharebroker import ErrorCode, KafkaError, ShareConsumer, TopicPartition
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, offsets, poll, take


def lag(world: World, group: str) -> int | None:
    return world.admin.group_offsets(group)[TopicPartition(world.topic, 0)].lag


def settled_lag(world: World, group: str, expected: int) -> None:
    """The lag is known once the state was written; production shows at the next look."""
    until(lambda: lag(world, group) == expected)


def accepted(consumer: ShareConsumer, count: int) -> None:
    accept_all(take(consumer, count))
    assert all(result.error is None for result in consumer.commit())


def test_describe_share_group_offsets_for_empty_share_partition(world: World) -> None:
    group = world.new_group()
    assert nothing_comes(world.consumer(group))
    info = world.admin.group_offsets(group)[TopicPartition(world.topic, 0)]
    assert info.start_offset is None


def test_share_partition_lag_for_single_share_consumer(world: World) -> None:
    group = world.new_group()
    consumer = world.consumer(group)
    world.produce(1)
    accepted(consumer, 1)
    settled_lag(world, group, 0)
    world.produce(1)
    settled_lag(world, group, 1)
    records = poll(consumer)  # acquiring changes nothing
    assert lag(world, group) == 1
    accept_all(records)
    consumer.commit()
    settled_lag(world, group, 0)


def test_share_partition_lag_for_multiple_share_consumers(world: World) -> None:
    group = world.new_group()
    one, two = world.consumer(group), world.consumer(group)
    world.produce(1)
    records = one.poll(2.0) + two.poll(2.0)
    accept_all(records)
    for consumer in (one, two):
        consumer.commit()
    settled_lag(world, group, 0)
    one.close()
    world.produce(1)
    settled_lag(world, group, 1)
    accepted(two, 1)
    settled_lag(world, group, 0)


def test_share_partition_lag_with_release_acknowledgement(world: World) -> None:
    group = world.new_group()
    consumer = world.consumer(group)
    world.produce(1)
    accepted(consumer, 1)
    world.produce(1)
    (record,) = poll(consumer)
    record.release().result(5)
    settled_lag(world, group, 1)
    accepted(consumer, 1)
    settled_lag(world, group, 0)


def test_share_partition_lag_with_reject_acknowledgement(world: World) -> None:
    group = world.new_group()
    consumer = world.consumer(group)
    world.produce(1)
    accepted(consumer, 1)
    world.produce(1)
    (record,) = poll(consumer)
    record.reject("of no use").result(5)
    settled_lag(world, group, 0)


def test_share_partition_lag_after_alter_share_group_offsets(world: World) -> None:
    group = world.new_group()
    consumer = world.consumer(group)
    world.produce(100)
    accepted(consumer, 100)
    with pytest.raises(KafkaError) as caught:
        world.admin.alter_group_offsets(group, {TopicPartition(world.topic, 0): 40})
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    consumer.close()
    world.produce(5)
    world.admin.alter_group_offsets(group, {TopicPartition(world.topic, 0): 40})
    info = world.admin.group_offsets(group)[TopicPartition(world.topic, 0)]
    assert (info.start_offset, info.lag) == (40, 65)
    assert offsets(take(world.consumer(group), 65, accept=True))[0] == 40


def test_share_partition_lag_after_delete_share_group_offsets(world: World) -> None:
    group = world.new_group()
    consumer = world.consumer(group)
    world.produce(5)
    accepted(consumer, 5)
    consumer.close()
    world.admin.delete_group_offsets(group, [world.topic])
    assert TopicPartition(world.topic, 0) not in world.admin.group_offsets(group)
    assert offsets(take(world.consumer(group), 5)) == [0, 1, 2, 3, 4]
