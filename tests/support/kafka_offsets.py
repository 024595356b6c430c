"""Reads Kafka's records of committed offsets the slow way: field by field, as its definitions list them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from tests.support.kafka_state import Reader

Key = tuple[str, str, int]


class Commit(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int
    topic_id: str


class Record(NamedTuple):
    """A record as a consumer receives it; `commit` is None for a tombstone. The key is group, topic,
    partition.
    """

    offset: int
    timestamp: int
    key: Key
    commit: Commit | None


def read_key(data: bytes) -> Key:
    reader = Reader(data)
    assert reader.number("h") == 1
    group_id, topic = (reader.take(reader.number("h")).decode() for _ in range(2))
    key = group_id, topic, int(reader.number("i"))
    assert not reader.data
    return key


def read_value(data: bytes) -> Commit:
    reader = Reader(data)
    assert reader.number("h") == 4
    offset, leader_epoch = reader.number("q"), reader.number("i")
    metadata = reader.take(reader.varint() - 1).decode()
    committed_at = reader.number("q")
    assert [reader.varint() for _ in range(3)] == [1, 0, 16]
    topic_id = urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    assert not reader.data
    return Commit(offset, leader_epoch, metadata, committed_at, topic_id)


def read_record(offset: int, timestamp: int, key: bytes, value: bytes | None) -> Record:
    return Record(offset, timestamp, read_key(key), None if value is None else read_value(value))


def read_batches(data: bytes) -> Iterator[Record]:
    """Returns all records of whole record batches; every CRC must be correct."""
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            assert record.key is not None
            yield read_record(record.offset, record.timestamp, record.key, record.value)
    assert batches.size_in_bytes() == len(data)


def fold(records: Iterable[Record]) -> dict[Key, Commit]:
    """Returns the state of Kafka's group coordinator: the latest record of each key."""
    kept: dict[Key, Commit] = {}
    for record in records:
        kept.pop(record.key, None)
        if record.commit is not None:
            kept[record.key] = record.commit
    return kept
