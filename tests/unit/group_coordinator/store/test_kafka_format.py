"""Our bytes equal those of Apache Kafka's classes (kafka/OffsetCommitVectors.java writes vectors.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.store.kafka_format import offset_commit

VECTORS = {
    name: (key, value)
    for line in (Path(__file__).parent / "kafka" / "vectors.txt").read_text().splitlines()
    for name, key, value in [line.split(" | ")]
}
TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"
T0 = 1_700_000_000_000


def record(partition: int, committed: Committed | None, group: str = "g") -> OffsetRecord:
    return OffsetRecord(group, TopicIdPartition(TOPIC, partition), committed)


RECORDS = {
    "plain": (record(0, Committed(7, at_ms=T0)), "a"),
    "with everything": (
        record(2**31 - 1, Committed(2**63 - 1, 9, "von Hand", T0), "Aufträge:eu"),
        "orders.eu",
    ),
    "long metadata": (record(3, Committed(0, 0, "m" * 300, T0)), "a"),
    "tombstone": (record(3, None), "a"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_equal_kafkas(name: str) -> None:
    time, key, value = offset_commit(*RECORDS[name])
    assert (key.hex(), "-" if value is None else value.hex()) == VECTORS[name]
    assert time == (-1 if value is None else T0)
