"""Third-party consumers, unmodified, with a partition assigned: aiokafka, kafka-python, librdkafka."""

from __future__ import annotations

import asyncio

import confluent_kafka
import pytest

from sharebroker_server.catalog.topics import STATE_TOPIC
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.makers import CONSUMERS, Consume
from tests.support.client import TIMEOUT
from tests.support.kafka_state import fold, read_record


@pytest.mark.parametrize("consume", CONSUMERS)
async def test_consumers_of_all_libraries_read_an_assigned_partition(
    harness: Harness, consume: Consume
) -> None:
    at = await harness.readable(records=3, partitions=2)
    await harness.client.publish(at.topic, map(str, range(1000)), partition=1)
    few = await asyncio.to_thread(consume, harness.address, at.topic, 0, 3)
    assert [(offset, value) for offset, _, _, value, _ in few] == [
        (n, f"record {n}".encode()) for n in range(3)
    ]
    many = await asyncio.to_thread(consume, harness.address, at.topic, 1, 1000)
    assert [(offset, value) for offset, _, _, value, _ in many] == [(n, str(n).encode()) for n in range(1000)]


@pytest.mark.parametrize("consume", CONSUMERS)
async def test_share_state_log_is_read(harness: Harness, consume: Consume) -> None:
    at = await harness.readable(records=2)
    held = await harness.client.acquire_all(at.group, at.topic, 2, "another")
    await harness.client.acknowledge(at.group, "another", held[1:])
    shard = shard_of(f"{at.group}:{at.topic_id}:0", 50)
    first, end = await asyncio.to_thread(state_offsets, harness.address, shard)
    found = await asyncio.to_thread(consume, harness.address, STATE_TOPIC, shard, end - first)
    records = [read_record(offset, time, key or b"", value) for offset, time, key, value, _ in found]
    assert [record.offset for record in records] == list(range(first, end))
    mine = [record for record in records if record.key == (at.group, at.topic_id, 0)]
    assert [record.kind for record in mine[:2]] == ["ShareSnapshot", "ShareUpdate"]
    assert fold(mine)[at.group, at.topic_id, 0].offsets == {1: (1, 2)}


def state_offsets(address: str, partition: int) -> tuple[int, int]:
    """Returns the start and end of a shard's log, as librdkafka reports them."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "absent"})
    try:
        at = confluent_kafka.TopicPartition(STATE_TOPIC, partition)
        first, end = consumer.get_watermark_offsets(at, timeout=TIMEOUT)
        return first, end
    finally:
        consumer.close()
