"""Catalog records survive the way to bytes and back; other bytes are refused."""

from __future__ import annotations

import pytest

from sharebroker_server.catalog.codec import CatalogCodec
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topic_ids import new_topic_id, topic_id_text
from sharebroker_server.kafka_wire.topic_ids import id_bytes

RECORDS: list[CatalogRecord] = [
    TopicRecord(Topic("T1", "a", 3, {"retention.ms": "1"}, 17)),
    TopicRecord(Topic("T1", "a", 1)),
    PartitionsRecord("T1", 4),
    TopicDeletedRecord("T1", 3),
    ConfigRecord(ConfigResource(ResourceType.TOPIC, "a"), "retention.ms", "1"),
    ConfigRecord(ConfigResource(ResourceType.GROUP, "g"), "share.isolation.level", None),
    ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "num.partitions", ""),
    ClusterRecord("c"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_round_trip(record: CatalogRecord) -> None:
    codec = CatalogCodec()
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize("payload", [b"", b"\xff\xff\xff"])
def test_other_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="catalog record"):
        CatalogCodec().decode(payload)


def test_topic_ids_are_kafkas_text() -> None:
    raw = bytes(range(16))
    assert topic_id_text(raw) == "AAECAwQFBgcICQoLDA0ODw"
    drawn = new_topic_id()
    assert len(drawn) == 22
    assert not drawn.startswith("-")
    assert topic_id_text(id_bytes(drawn)) == drawn
