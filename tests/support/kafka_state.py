"""Reads Kafka's records of share state the slow way: field by field, as Kafka's definitions list them."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiokafka.record.memory_records import MemoryRecords

Fields = dict[str, Any]
Key = tuple[str, str, int]

KEYS = {0: "ShareSnapshot", 1: "ShareUpdate"}
VALUES = {
    "ShareSnapshot": [
        ("SnapshotEpoch", "i"),
        ("StateEpoch", "i"),
        ("LeaderEpoch", "i"),
        ("StartOffset", "q"),
        ("CreateTimestamp", "q"),
        ("WriteTimestamp", "q"),
    ],
    "ShareUpdate": [("SnapshotEpoch", "i"), ("LeaderEpoch", "i"), ("StartOffset", "q")],
}


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        assert len(self.data) >= size
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self, code: str) -> int:
        return int(struct.unpack(f">{code}", self.take(struct.calcsize(code)))[0])

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def read_key(data: bytes) -> tuple[str, Key]:
    """Returns the type of a record and (group id, topic id, partition)."""
    reader = Reader(data)
    kind = KEYS[reader.number("h")]
    group_id = reader.take(reader.number("h")).decode()
    topic_id = urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    key = group_id, topic_id, reader.number("i")
    assert not reader.data
    return kind, key


def read_value(kind: str, data: bytes) -> Fields:
    """Returns fields by Kafka's names; batches are (first, last, state, count)."""
    reader = Reader(data)
    assert reader.number("h") == 0
    fields: Fields = {name: reader.number(code) for name, code in VALUES[kind]}
    fields["StateBatches"] = [_batch(reader) for _ in range(reader.varint() - 1)]
    fields["DeliveryCompleteCount"] = -1
    for _ in range(reader.varint()):
        assert (reader.varint(), reader.varint()) == (0, 4)
        fields["DeliveryCompleteCount"] = reader.number("i")
    assert not reader.data
    return fields


def _batch(reader: Reader) -> tuple[int, ...]:
    batch = tuple(reader.number(code) for code in "qqbh")
    assert reader.varint() == 0
    return batch


@dataclass(frozen=True)
class Record:
    """A record as a consumer receives it; `value` is None for a tombstone."""

    offset: int
    timestamp: int
    kind: str
    key: Key
    value: Fields | None


def read_record(offset: int, timestamp: int, key: bytes, value: bytes | None) -> Record:
    kind, of = read_key(key)
    return Record(offset, timestamp, kind, of, None if value is None else read_value(kind, value))


def read_batches(data: bytes) -> Iterator[Record]:
    """Returns all records of whole record batches; every CRC must be correct."""
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            yield read_record(record.offset, record.timestamp, record.key, record.value)
    assert batches.size_in_bytes() == len(data)


@dataclass
class Folded:
    """The state of a share-partition in Kafka's share coordinator, one value per offset."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    count: int
    offsets: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # (delivery count, state): the greater wins

    def add(self, batches: Iterable[tuple[int, ...]]) -> None:
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, (-1, -1)), (count, state))
        self.offsets = {offset: v for offset, v in self.offsets.items() if offset >= self.start_offset}


def fold(records: Iterable[Record]) -> dict[Key, Folded]:
    """Replays records by Kafka's rules (ShareCoordinatorShard): snapshots replace, updates merge."""
    state: dict[Key, Folded] = {}
    for record in records:
        value = record.value
        if record.kind == "ShareSnapshot" and value is None:
            state.pop(record.key, None)
        elif record.kind == "ShareSnapshot" and value is not None:
            folded = Folded(
                value["StateEpoch"],
                value["LeaderEpoch"],
                value["StartOffset"],
                value["DeliveryCompleteCount"],
            )
            folded.add(value["StateBatches"])
            state[record.key] = folded
        elif value is not None:
            folded = state.setdefault(record.key, Folded(0, -1, -1, -1))  # of a snapshot that was trimmed
            folded.leader_epoch = max(folded.leader_epoch, value["LeaderEpoch"])
            folded.start_offset = max(folded.start_offset, value["StartOffset"])
            folded.count = value["DeliveryCompleteCount"]
            folded.add(value["StateBatches"])
    return state
