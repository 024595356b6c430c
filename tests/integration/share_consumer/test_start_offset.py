"""Initial start offsets, and log start offsets that move (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import asyncio
from time import time

import pytest

from sharebroker import ErrorCode, KafkaError, Record, TopicPartition
from sharebroker.aio import ShareConsumer
from tests.integration.share_consumer.harness import (
    TIMEOUT,
    Harness,
    accept_all,
    is_idle,
    offsets,
    poll,
    poll_records,
)
from tests.testkit.waiting import eventually

HOUR_MS = 3_600_000


async def first_seen(harness: Harness, consumer: ShareConsumer) -> Record:
    """Returns the first record of the consumer. A `latest` group starts somewhere among these; no client can
    detect where.
    """
    async with asyncio.timeout(TIMEOUT):
        while True:
            await harness.produce(1)
            for record in await consumer.poll(0.2):
                return record


async def test_share_auto_offset_reset_default_value(harness: Harness) -> None:
    await harness.produce(3)
    consumer = await harness.consumer(await harness.new_group(reset=None))
    assert (await first_seen(harness, consumer)).offset >= 3


async def test_share_auto_offset_reset_earliest(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    accept_all(await poll(consumer))
    await harness.produce(1)
    assert offsets(await poll(consumer)) == [1]


async def test_share_auto_offset_reset_earliest_after_lso_movement(harness: Harness) -> None:
    await harness.produce_singly(10)
    await harness.admin.delete_records({TopicPartition(harness.topic, 0): 5})
    assert offsets(await poll_records(await harness.consumer(), 5, accept=True)) == [5, 6, 7, 8, 9]


async def test_share_auto_offset_reset_multiple_groups_with_different_value(harness: Harness) -> None:
    await harness.produce(3)
    early = await harness.consumer()
    late = await harness.consumer(await harness.new_group("latest"))
    accept_all(await poll_records(early, 3))
    assert (await first_seen(harness, late)).offset >= 3
    partition = TopicPartition(harness.topic, 0)
    end = (await harness.admin.list_offsets([partition]))[partition]
    assert end is not None
    assert offsets(await poll_records(early, end - 3, accept=True)) == list(range(3, end))


async def test_share_auto_offset_reset_by_duration(harness: Harness) -> None:
    now = round(time() * 1000)
    for age in (2 * HOUR_MS, HOUR_MS // 2, 0):
        await harness.produce(1, timestamp_ms=now - age)
    for duration, expected in (("PT1H", [1, 2]), ("PT3H", [0, 1, 2])):
        consumer = await harness.consumer(await harness.new_group(f"by_duration:{duration}"))
        assert offsets(await poll_records(consumer, len(expected), accept=True)) == expected


@pytest.mark.parametrize("value", ["by_duration:1h", "by_duration:-PT1H", "soon"])
async def test_share_auto_offset_reset_by_duration_invalid_format(harness: Harness, value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        await harness.new_group(value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


async def test_lso_movement_by_records_deletion(harness: Harness) -> None:
    partition = TopicPartition(harness.topic, 0)
    group = await harness.new_group()
    await harness.produce_singly(10)
    await harness.admin.delete_records({partition: 5})
    consumer = await harness.consumer(group)
    assert offsets(await poll_records(consumer, 5, accept=True)) == [5, 6, 7, 8, 9]
    await consumer.close()
    await harness.produce_singly(5)
    await harness.admin.delete_records({partition: 14})
    consumer = await harness.consumer(group)
    assert offsets(await poll_records(consumer, 1, accept=True)) == [14]
    await harness.admin.delete_records({partition: 15})
    assert await is_idle(consumer)
    await harness.produce(1)
    assert offsets(await poll(consumer)) == [15]


async def test_records_deleted_while_they_are_held(harness: Harness) -> None:
    """They are deleted: acknowledging them is rejected (Kafka, which has no tokens, ignores it)."""
    await harness.produce(4)
    consumer = await harness.consumer()
    records = await poll_records(consumer, 4)
    await harness.admin.delete_records({TopicPartition(harness.topic, 0): 3})
    accept_all(records[:2])
    records[2].release()
    records[3].release()
    assert [result.error and result.error.code for result in await consumer.commit()] == [
        *[ErrorCode.INVALID_RECORD_STATE] * 3,
        None,
    ]
    assert [(record.offset, record.delivery_count) for record in await poll(consumer)] == [(3, 2)]


async def test_added_partitions_of_known_topic_start_at_offset_zero(harness: Harness) -> None:
    """This also holds in a `latest` group."""
    group = await harness.new_group("latest")
    consumer = await harness.consumer(group)
    await harness.assigned(group)
    await eventually(lambda: initialised(harness, group))
    await harness.admin.create_partitions(harness.topic, 2)
    await harness.produce(3, partition=1)
    assert [(r.partition, r.offset) for r in await poll_records(consumer, 3)] == [(1, 0), (1, 1), (1, 2)]


async def initialised(harness: Harness, group: str) -> bool:
    return await harness.offset(group) is not None
