"""Old records are written again with their current contents, so that the log can be trimmed."""

from __future__ import annotations

import pytest

from sharebroker_server.catalog.acls import AclDeletedRecord, AclRecord
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.live_records import LiveRecords
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord, ScramCredentialRecord
from sharebroker_server.live_keys import SLACK
from sharebroker_server.security.acl import binding
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256
ALICE = ScramCredentialRecord("alice", SHA_256, ScramCredential(b"salt", b"a", b"b", 4096), super_user=True)
ACL = binding(2, "orders", 3, "User:alice", "*", 3, 3)
CONFIG = ConfigRecord(ConfigResource(ResourceType.GROUP, "g"), "share.auto.offset.reset", "latest")
CLUSTER = ClusterRecord("c", {"share.version": 1}, 4)


class Log:
    """A catalog and its log."""

    def __init__(self) -> None:
        self.catalog = TopicCatalog()
        self.live = LiveRecords(self.catalog)
        self.position = 0

    def write(self, *records: CatalogRecord) -> None:
        for record in records:
            self.position += 1
            self.live.register(record, self.position)
            self.catalog.apply(record, self.position)


@pytest.fixture
def log() -> Log:
    return Log()


def test_every_kind_of_record_is_written_again(log: Log) -> None:
    topic = Topic("T1", "orders", 1)
    log.write(TopicRecord(topic), TopicDeletedRecord("T0"), CONFIG, ALICE, AclRecord(ACL))
    log.write(PartitionsRecord("T1", 3))
    assert log.live.trim_before() == 1
    log.write(*[CLUSTER] * (SLACK + 20))
    assert log.live.rewritten(3) == [
        TopicRecord(Topic("T1", "orders", 3)),
        TopicDeletedRecord("T0"),
        CONFIG,
        ALICE,
        AclRecord(ACL),
        CLUSTER,
    ]


def test_a_deleted_record_is_not_written_again(log: Log) -> None:
    log.write(TopicRecord(Topic("T1", "orders", 1)), CONFIG, ALICE, AclRecord(ACL), CLUSTER)
    log.write(
        TopicDeletedRecord("T1"),
        ConfigRecord(CONFIG.resource, CONFIG.key, None),
        ScramCredentialDeletedRecord("alice", SHA_256),
        AclDeletedRecord(ACL),
    )
    log.write(*[CLUSTER] * (SLACK + 20))
    assert log.live.rewritten(9) == [TopicDeletedRecord("T1"), CLUSTER]


def test_a_short_log_is_not_written_again(log: Log) -> None:
    log.write(ALICE, CLUSTER)
    assert log.live.rewritten(1) == []
