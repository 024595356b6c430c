"""Where a group begins, and log start offsets that move (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import asyncio
from time import time

import pytest

from sharebroker import ErrorCode, KafkaError, Record, TopicPartition
from sharebroker.aio import ShareConsumer
from sharebroker_server.testkit.waiting import eventually
from tests.scenarios.share_consumer.world import (
    WARN_AFTER,
    World,
    accept_all,
    nothing_comes,
    offsets,
    poll,
    take,
)

HOUR_MS = 3_600_000


async def first_seen(world: World, consumer: ShareConsumer) -> Record:
    """What the consumer sees first. A `latest` group begins somewhere among these; nobody is told where."""
    async with asyncio.timeout(WARN_AFTER):
        while True:
            await world.produce(1)
            for record in await consumer.poll(0.2):
                return record


async def test_share_auto_offset_reset_default_value(world: World) -> None:
    await world.produce(3)
    consumer = await world.consumer(await world.new_group(reset=None))
    assert (await first_seen(world, consumer)).offset >= 3


async def test_share_auto_offset_reset_earliest(world: World) -> None:
    await world.produce(1)
    consumer = await world.consumer()
    accept_all(await poll(consumer))
    await world.produce(1)
    assert offsets(await poll(consumer)) == [1]


async def test_share_auto_offset_reset_earliest_after_lso_movement(world: World) -> None:
    await world.produce_singly(10)
    await world.admin.delete_records({TopicPartition(world.topic, 0): 5})
    assert offsets(await take(await world.consumer(), 5, accept=True)) == [5, 6, 7, 8, 9]


async def test_share_auto_offset_reset_multiple_groups_with_different_value(world: World) -> None:
    await world.produce(3)
    early = await world.consumer()
    late = await world.consumer(await world.new_group("latest"))
    accept_all(await take(early, 3))
    assert (await first_seen(world, late)).offset >= 3
    partition = TopicPartition(world.topic, 0)
    end = (await world.admin.list_offsets([partition]))[partition]
    assert end is not None
    assert offsets(await take(early, end - 3, accept=True)) == list(range(3, end))


async def test_share_auto_offset_reset_by_duration(world: World) -> None:
    now = round(time() * 1000)
    for age in (2 * HOUR_MS, HOUR_MS // 2, 0):
        await world.produce(1, timestamp_ms=now - age)
    for duration, expected in (("PT1H", [1, 2]), ("PT3H", [0, 1, 2])):
        consumer = await world.consumer(await world.new_group(f"by_duration:{duration}"))
        assert offsets(await take(consumer, len(expected), accept=True)) == expected


@pytest.mark.parametrize("value", ["by_duration:1h", "by_duration:-PT1H", "soon"])
async def test_share_auto_offset_reset_by_duration_invalid_format(world: World, value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        await world.new_group(value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


async def test_lso_movement_by_records_deletion(world: World) -> None:
    partition = TopicPartition(world.topic, 0)
    group = await world.new_group()
    await world.produce_singly(10)
    await world.admin.delete_records({partition: 5})
    consumer = await world.consumer(group)
    assert offsets(await take(consumer, 5, accept=True)) == [5, 6, 7, 8, 9]
    await consumer.close()
    await world.produce_singly(5)
    await world.admin.delete_records({partition: 14})
    consumer = await world.consumer(group)
    assert offsets(await take(consumer, 1, accept=True)) == [14]
    await world.admin.delete_records({partition: 15})
    assert await nothing_comes(consumer)
    await world.produce(1)
    assert offsets(await poll(consumer)) == [15]


async def test_records_deleted_while_they_are_held(world: World) -> None:
    """They are gone: acknowledging them is refused (Kafka, which has no tokens, ignores it)."""
    await world.produce(4)
    consumer = await world.consumer()
    records = await take(consumer, 4)
    await world.admin.delete_records({TopicPartition(world.topic, 0): 3})
    accept_all(records[:2])
    records[2].release()
    records[3].release()
    assert [result.error and result.error.code for result in await consumer.commit()] == [
        *[ErrorCode.INVALID_RECORD_STATE] * 3,
        None,
    ]
    assert [(record.offset, record.delivery_count) for record in await poll(consumer)] == [(3, 2)]


async def test_added_partitions_of_known_topic_start_at_offset_zero(world: World) -> None:
    """Also in a `latest` group."""
    group = await world.new_group("latest")
    consumer = await world.consumer(group)
    await world.assigned(group)
    await eventually(lambda: initialised(world, group))
    await world.admin.create_partitions(world.topic, 2)
    await world.produce(3, partition=1)
    assert [(r.partition, r.offset) for r in await take(consumer, 3)] == [(1, 0), (1, 1), (1, 2)]


async def initialised(world: World, group: str) -> bool:
    return await world.offset(group) is not None
