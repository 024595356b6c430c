"""Fetch and related APIs as raw requests, for logs of any topic."""

from __future__ import annotations

from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from tests.support.kafka_client import KafkaClient, part

FETCH, LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 1, 2, 21, 23
PLENTY = 1 << 20
ID_SINCE = 13


def fetch_topic(topic: str, topic_id: str, version: int, **offsets: Any) -> Any:
    """Returns a topic of a Fetch; `offsets` are fields of its only partition."""
    asked = part(FETCH, "FetchPartition", **{"partition": 0, "partition_max_bytes": PLENTY, **offsets})
    named = {"topic_id": topic_id} if version >= ID_SINCE else {"topic": topic}
    return part(FETCH, "FetchTopic", partitions=[asked], **named)


async def fetch(kafka: KafkaClient, version: int, *topics: Any, **fields: Any) -> Any:
    """Returns the response to a Fetch, which does not wait by default."""
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": PLENTY, "topics": topics, **fields}
    return await kafka.ask(FETCH, version, **fields)


async def fetch_one(
    kafka: KafkaClient, topic: str, topic_id: str, offset: int, version: int = 18, **fields: Any
) -> Any:
    """Returns the only partition of a Fetch."""
    response = await fetch(
        kafka, version, fetch_topic(topic, topic_id, version, fetch_offset=offset), **fields
    )
    (answered,) = response.responses
    assert (answered.topic, answered.topic_id) == ((topic, "") if version < ID_SINCE else ("", topic_id))
    return answered.partitions[0]


async def list_offset(
    kafka: KafkaClient, topic: str, timestamp: int, version: int = 11, partition: int = 0, **fields: Any
) -> Any:
    """Returns the only partition of a ListOffsets."""
    asked = part(
        LIST_OFFSETS, "ListOffsetsPartition", partition_index=partition, timestamp=timestamp, **fields
    )
    topics = [part(LIST_OFFSETS, "ListOffsetsTopic", name=topic, partitions=[asked])]
    response = await kafka.ask(LIST_OFFSETS, version, replica_id=-1, topics=topics)
    return response.topics[0].partitions[0]


def values(data: bytes) -> list[tuple[int, bytes | None]]:
    """Returns offset and value of each record."""
    batches = MemoryRecords(data)
    read = []
    while (batch := batches.next_batch()) is not None:
        read += [(record.offset, record.value) for record in batch]
    return read
