"""Where a group begins, and log start offsets that move.

Left out: the five tests of isolation levels (no transactions over gRPC).
"""

from __future__ import annotations

from time import time

import pytest

from sharebroker import ErrorCode, KafkaError, TopicPartition
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, offsets, poll, take

HOUR_MS = 3_600_000


def test_share_auto_offset_reset_default_value(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group(reset=None))
    assert nothing_comes(consumer)
    world.produce(1)
    assert offsets(poll(consumer)) == [1]


def test_share_auto_offset_reset_earliest(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    accept_all(poll(consumer))
    world.produce(1)
    assert offsets(poll(consumer)) == [1]


def test_share_auto_offset_reset_earliest_after_lso_movement(world: World) -> None:
    world.produce_singly(10)
    world.admin.delete_records({TopicPartition(world.topic, 0): 5})
    assert offsets(take(world.consumer(world.new_group()), 5, accept=True)) == [5, 6, 7, 8, 9]


def test_share_auto_offset_reset_multiple_groups_with_different_value(world: World) -> None:
    world.produce(1)
    early, late = world.consumer(world.new_group()), world.consumer(world.new_group("latest"))
    accept_all(take(early, 1))
    assert nothing_comes(late)
    world.produce(1)
    assert offsets(poll(early)) == [1]
    assert offsets(poll(late)) == [1]


def test_share_auto_offset_reset_by_duration(world: World) -> None:
    now = round(time() * 1000)
    for age in (2 * HOUR_MS, HOUR_MS // 2, 0):
        world.produce(1, timestamp_ms=now - age)
    assert offsets(take(world.consumer(world.new_group("by_duration:PT1H")), 2, accept=True)) == [1, 2]
    assert offsets(take(world.consumer(world.new_group("by_duration:PT3H")), 3, accept=True)) == [0, 1, 2]


@pytest.mark.parametrize("value", ["by_duration:1h", "by_duration:-PT1H", "soon"])
def test_share_auto_offset_reset_by_duration_invalid_format(world: World, value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        world.new_group(value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_lso_movement_by_records_deletion(world: World) -> None:
    partition = TopicPartition(world.topic, 0)
    consumer = world.consumer(world.new_group())
    world.produce_singly(10)
    world.admin.delete_records({partition: 5})
    assert offsets(take(consumer, 5, accept=True))[-1] == 9
    group = world.new_group()
    world.produce_singly(5)
    world.admin.delete_records({partition: 14})
    assert offsets(take(world.consumer(group), 1, accept=True)) == [14]
    world.admin.delete_records({partition: 15})
    assert nothing_comes(world.consumer(world.new_group()))


def test_added_partitions_of_known_topic_start_at_offset_zero(world: World) -> None:
    consumer = world.consumer(world.new_group("latest"))
    assert nothing_comes(consumer)
    world.admin.create_partitions(world.topic, 2)
    world.produce(3, partition=1)
    assert [(r.partition, r.offset) for r in take(consumer, 3)] == [(1, 0), (1, 1), (1, 2)]
