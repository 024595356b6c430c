"""Administration of offsets, and lag (KIP-1226; ShareConsumerTest; see README.md).

A state write carries the lag at that write, so the value is correct once a commit has returned.
"""

from __future__ import annotations

import pytest

from sharebroker import ErrorCode, KafkaError, TopicPartition
from sharebroker.aio import ShareConsumer
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, offsets, poll, poll_records
from tests.testkit.waiting import eventually


async def accepted(consumer: ShareConsumer, count: int) -> None:
    await poll_records(consumer, count, accept=True)
    assert all(result.error is None for result in await consumer.commit())


async def test_describe_share_group_offsets_for_empty_share_partition(harness: Harness) -> None:
    """A partition from which no record was acquired has no start offset yet."""
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.assigned(group)
    assert await is_idle(consumer)
    offset = await harness.offset(group)
    assert offset is not None
    assert (offset.start_offset, offset.lag) == (None, None)


async def test_share_partition_lag_for_single_share_consumer(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(1)
    await accepted(consumer, 1)
    assert await harness.lag(group) == 0
    await harness.produce(3)
    assert await harness.lag(group) == 3
    records = await poll(consumer)
    assert await harness.lag(group) == 3  # acquiring changes nothing
    accept_all(records)
    await consumer.commit()
    assert await harness.lag(group) == 0


async def test_share_partition_lag_for_multiple_share_consumers(harness: Harness) -> None:
    group = await harness.new_group()
    one, two = await harness.consumer(group), await harness.consumer(group)
    await harness.produce(1)
    while await harness.lag(group) != 0:
        for consumer in (one, two):
            accept_all(await consumer.poll(0.05))
            await consumer.commit()
    await one.close()
    await harness.produce(1)
    assert await harness.lag(group) == 1
    await accepted(two, 1)
    assert await harness.lag(group) == 0


async def test_share_partition_lag_with_release_acknowledgement(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(1)
    await accepted(consumer, 1)
    await harness.produce(1)
    (record,) = await poll(consumer)
    await record.release()
    assert await harness.lag(group) == 1
    await accepted(consumer, 1)
    assert await harness.lag(group) == 0


async def test_share_partition_lag_with_reject_acknowledgement(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(2)
    records = await poll_records(consumer, 2)
    await records[0].reject("of no use")
    assert await harness.lag(group) == 1
    await records[1].reject("of no use")
    assert await harness.lag(group) == 0


async def test_lag_counts_finished_records_in_any_order(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(10)
    records = await poll_records(consumer, 10)
    for finished, record in enumerate(reversed(records), 1):
        await record.accept()
        assert await harness.lag(group) == 10 - finished
    offset = await harness.offset(group)
    assert offset is not None
    assert offset.start_offset == 10


async def test_share_partition_lag_after_alter_share_group_offsets(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(100)
    await accepted(consumer, 100)
    partition = TopicPartition(harness.topic, 0)
    with pytest.raises(KafkaError) as caught:
        await harness.admin.alter_group_offsets(group, {partition: 40})
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    await consumer.close()
    await harness.produce(5)
    await harness.admin.alter_group_offsets(group, {partition: 40})
    offset = await harness.offset(group)
    assert offset is not None
    assert (offset.start_offset, offset.lag) == (40, 65)
    assert offsets(await poll_records(await harness.consumer(group), 65, accept=True)) == list(range(40, 105))


async def test_share_partition_lag_after_delete_share_group_offsets(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(5)
    await accepted(consumer, 5)
    with pytest.raises(KafkaError) as caught:
        await harness.admin.delete_group_offsets(group, [harness.topic])
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    await consumer.close()
    await harness.admin.delete_group_offsets(group, [harness.topic])
    assert await harness.offset(group) is None
    assert offsets(await poll_records(await harness.consumer(group), 5)) == [0, 1, 2, 3, 4]


async def test_deleted_group_starts_again(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(2)
    await accepted(consumer, 2)
    with pytest.raises(KafkaError) as caught:
        await harness.admin.delete_group(group)
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    await consumer.close()
    await harness.admin.delete_group(group)
    assert offsets(await poll_records(await harness.consumer(group), 2)) == [0, 1]


async def test_position_is_kept_without_members(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(4)
    records = await poll_records(consumer, 4)
    await records[0].accept()
    await records[2].accept()
    await consumer.close()
    await eventually(lambda: position_is(harness, group, 1))
    assert await harness.lag(group) == 2
    again = await poll_records(await harness.consumer(group), 2)
    assert [(record.offset, record.delivery_count) for record in again] == [(1, 2), (3, 2)]


async def position_is(harness: Harness, group: str, expected: int) -> bool:
    offset = await harness.offset(group)
    return offset is not None and offset.start_offset == expected
