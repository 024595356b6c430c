"""Values of the catalog; records are decoded from their bytes, other bytes are rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.storage.v1 import catalog_pb2 as pb
from sharebroker_server.catalog.acls import AclDeletedRecord, AclRecord
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.catalog.records import (
    CatalogCodec,
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord, ScramCredentialRecord
from sharebroker_server.security.acl import binding
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism
from tests.testkit.tables import each

TOPIC = Topic("T1", "flights", 3)


def test_fingerprint_depends_on_name_id_and_partitions() -> None:
    others = [replace(TOPIC, topic_id="T2"), replace(TOPIC, name="orders"), replace(TOPIC, partitions=4)]
    assert len({topic.fingerprint for topic in (TOPIC, *others)}) == 4


def test_fingerprint_ignores_configs() -> None:
    assert replace(TOPIC, configs={"retention.ms": "1"}, created_ms=7).fingerprint == TOPIC.fingerprint


RECORDS: list[CatalogRecord] = [
    TopicRecord(Topic("T1", "a", 3, {"retention.ms": "1"}, 17)),
    TopicRecord(Topic("T1", "a", 1)),
    PartitionsRecord("T1", 4),
    TopicDeletedRecord("T1", 3),
    ConfigRecord(ConfigResource(ResourceType.TOPIC, "a"), "retention.ms", "1"),
    ConfigRecord(ConfigResource(ResourceType.GROUP, "g"), "share.isolation.level", None),
    ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "num.partitions", ""),
    ClusterRecord("c"),
    ClusterRecord("c", {"share.version": 0, "transaction.version": 2}, 7),
    ScramCredentialRecord("alice", ScramMechanism.SCRAM_SHA_512, ScramCredential(b"s", b"k", b"v", 4096)),
    ScramCredentialRecord(
        "admin", ScramMechanism.SCRAM_SHA_256, ScramCredential(b"s", b"k", b"v", 4096), super_user=True
    ),
    ScramCredentialDeletedRecord("alice", ScramMechanism.SCRAM_SHA_256),
    AclRecord(binding(2, "orders", 3, "User:alice", "*", 3, 3)),
    QuotaRecord(QuotaEntity("alice", ""), QuotaKey.PRODUCER_BYTE_RATE, 1024.0),
    QuotaRecord(QuotaEntity(ip=""), QuotaKey.CONNECTION_CREATION_RATE, None),
    AclDeletedRecord(binding(7, "x", 4, "User:*", "10.0.0.0/8", 15, 2)),
]


@each("record", RECORDS)
def test_record_round_trip(record: CatalogRecord) -> None:
    codec = CatalogCodec()
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize("payload", [b"", b"\xff\xff\xff"])
def test_invalid_bytes_are_rejected(payload: bytes) -> None:
    with pytest.raises(ValueError, match="catalog record"):
        CatalogCodec().decode(payload)


def test_an_acl_with_an_unknown_number_is_rejected() -> None:
    payload = pb.CatalogRecord(acl=pb.AclRecord(resource_type=99)).SerializeToString()
    with pytest.raises(ValueError, match="99"):
        CatalogCodec().decode(payload)
