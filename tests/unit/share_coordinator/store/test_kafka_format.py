"""Our bytes equal those of Apache Kafka's classes (kafka/ShareStateVectors.java writes vectors.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.model import SharePartitionKey, StateNote
from sharebroker_server.shard_topic.batches import record_batch
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.store.kafka_format import kafka_record
from tests.support.kafka_state import read_batches
from tests.unit.share_coordinator.harness import TOPIC, batch

VECTORS = {
    name: (key, value)
    for line in (Path(__file__).parent / "kafka" / "vectors.txt").read_text().splitlines()
    for name, key, value in [line.split(" | ")]
}
T0, T1 = 1_700_000_000_000, 1_700_000_300_000
FAR = 2**40


def key(partition: int, group_id: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group_id, TOPIC, partition)


RECORDS: dict[str, ShareRecord] = {
    "first checkpoint": ShareCheckpoint(key(0), 0, 1, 0, -1, -1, T0, T0, ()),
    "cold checkpoint": ShareCheckpoint(
        key(2**31 - 1, "Aufträge:eu"),
        2**31 - 1,
        7,
        9,
        FAR,
        300,
        T0,
        T1,
        (batch(FAR, FAR + 9, 0), batch(FAR + 10, 2**63 - 1, 4, 32767)),
    ),
    "checkpoint of 130 batches": ShareCheckpoint(
        key(0), 3, 1, 1, 0, 0, 1, 1, tuple(batch(2 * i, 2 * i) for i in range(130))
    ),
    "delta": ShareDelta(key(3), 17, 5, -1, -1, 4, (batch(100, 109),), T1),
    "delta of nothing but an epoch": ShareDelta(key(3), 17, 5, 8, 110, -1, (), T1),
    "checkpoint tombstone": CheckpointTombstone(key(3), T1),
    "delta tombstone": DeltaTombstone(key(3), 17, T1),
}


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_equal_kafkas(name: str) -> None:
    _, made_key, made_value = kafka_record(RECORDS[name])
    assert (made_key.hex(), "-" if made_value is None else made_value.hex()) == VECTORS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_the_time_it_was_written(name: str) -> None:
    written = {"first checkpoint": T0, "checkpoint of 130 batches": 1}
    assert kafka_record(RECORDS[name]).timestamp_ms == written.get(name, T1)


def test_kafkas_format_has_no_notes() -> None:
    for name in ("first checkpoint", "checkpoint of 130 batches"):
        record = RECORDS[name]
        assert isinstance(record, ShareCheckpoint)
        noted = record._replace(
            state_batches=tuple(batch._replace(note=StateNote(9)) for batch in record.state_batches)
        )
        assert kafka_record(noted) == kafka_record(record)


def test_written_records_are_read_unchanged() -> None:
    made = [(n, kafka_record(record)) for n, record in enumerate(RECORDS.values())]
    read = list(read_batches(record_batch(0, len(made), made)))
    assert [record.timestamp for record in read] == [record.timestamp_ms for _, record in made]
    assert [record.value is None for record in read] == [False] * 5 + [True] * 2
    assert read[3].value == {
        "SnapshotEpoch": 5,
        "LeaderEpoch": -1,
        "StartOffset": -1,
        "DeliveryCompleteCount": 4,
        "StateBatches": [(100, 109, 2, 1)],
    }
