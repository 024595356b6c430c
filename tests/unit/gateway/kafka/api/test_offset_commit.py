"""OffsetCommit: known partitions are committed, each partition has its own result."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import OffsetCommitRequest, OffsetCommitResponse
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes


def request(version: int, *indexes: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [
        partition(
            partition_index=index, committed_offset=40, committed_leader_epoch=3, committed_metadata="x"
        )
        for index in indexes
    ]
    by_id = version >= 10
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="" if by_id else TOPIC.name, topic_id=TOPIC.topic_id if by_id else "", partitions=partitions
    )
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=4,
        member_id="m",
        group_instance_id="i" if version >= 7 else None,
        topics=[topic],
    )


@pytest.mark.parametrize("version", [2, 6, 7, 9, 10])
async def test_each_partition_has_its_own_result(harness: Harness, version: int) -> None:
    harness.services.reply_each("OffsetCommit", pb.OffsetCommitResponse)
    (topic,) = (await harness.call(version, request(version, 1, 7), OffsetCommitResponse)).topics
    assert (topic.name, topic.topic_id) == (("", TOPIC.topic_id) if version >= 10 else (TOPIC.name, ""))
    assert codes(topic.partitions) == {1: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    sent = harness.services.only("OffsetCommit")
    assert (sent.group_id, sent.generation_id, sent.member_id) == ("g", 4, "m")
    assert sent.HasField("group_instance_id") is (version >= 7)
    (committed,) = sent.partitions
    assert (committed.topic_id, committed.partition, committed.committed_offset) == (TOPIC.topic_id, 1, 40)
    assert (committed.committed_leader_epoch, committed.metadata) == (3 if version >= 6 else -1, "x")


@pytest.mark.parametrize("topic_id", ["", "AAAAAAAAAAAAAAAAAAAAAQ"])
async def test_partitions_of_an_unknown_topic_id_are_not_forwarded(harness: Harness, topic_id: str) -> None:
    asked = request(10, 0, 1)
    asked.topics[0].topic_id = topic_id
    (topic,) = (await harness.call(10, asked, OffsetCommitResponse)).topics
    assert topic.topic_id == topic_id
    assert codes(topic.partitions) == dict.fromkeys((0, 1), ErrorCode.UNKNOWN_TOPIC_ID)
    assert not harness.services.requests


async def test_only_unknown_partitions_are_not_forwarded(harness: Harness) -> None:
    (topic,) = (await harness.call(9, request(9, 7), OffsetCommitResponse)).topics
    assert codes(topic.partitions) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not harness.services.requests


async def test_a_failed_request_fails_each_partition(harness: Harness) -> None:
    harness.services.fail("OffsetCommit", ErrorCode.ILLEGAL_GENERATION)
    (topic,) = (await harness.call(9, request(9, 0, 1), OffsetCommitResponse)).topics
    assert topic.name == TOPIC.name
    assert codes(topic.partitions) == dict.fromkeys((0, 1), ErrorCode.ILLEGAL_GENERATION)
    harness.services.fail("OffsetCommit", ErrorCode.GROUP_ID_NOT_FOUND)
    (topic,) = (await harness.call(9, request(9, 0), OffsetCommitResponse)).topics
    assert codes(topic.partitions) == {0: ErrorCode.ILLEGAL_GENERATION}
    harness.lead_elsewhere()
    (topic,) = (await harness.call(10, request(10, 0), OffsetCommitResponse)).topics
    assert topic.topic_id == TOPIC.topic_id
    assert codes(topic.partitions) == {0: ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (AclResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.TOPIC, TOPIC.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_the_audit_log_has_denied_commits(
    harness: Harness,
    authorizer: TableAuthorizer,
    monkeypatch: pytest.MonkeyPatch,
    kind: AclResourceType,
    name: str,
    code: ErrorCode,
) -> None:
    logged: list[tuple[AclOperation, AclResourceType, str]] = []
    monkeypatch.setattr(audit, "denied", lambda _, operation, denied: logged.append((operation, *denied)))
    authorizer.deny(AclOperation.READ, kind, name)
    (topic,) = (await harness.call(9, request(9, 0), OffsetCommitResponse)).topics
    assert codes(topic.partitions) == {0: code}
    assert logged == [(AclOperation.READ, kind, name)]
    assert not harness.services.requests
