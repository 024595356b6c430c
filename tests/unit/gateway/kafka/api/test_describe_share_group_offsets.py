"""DescribeShareGroupOffsets: start offsets, and lag from version 1 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

Group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
Topic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic


def reply(request: pb.DescribeShareGroupOffsetsRequest) -> pb.DescribeShareGroupOffsetsResponse:
    response = pb.DescribeShareGroupOffsetsResponse()
    for requested in request.groups:
        topic = response.groups.add(group_id=requested.group_id).topics.add(
            topic_name="flights", topic_id=TOPIC.topic_id
        )
        topic.partitions.add(partition=1, start_offset=70, leader_epoch=3, lag=5)
    return response


@pytest.mark.parametrize(("version", "lag"), [(0, -1), (1, 5)])
async def test_partitions_are_described(harness: Harness, version: int, lag: int) -> None:
    harness.services.reply("DescribeShareGroupOffsets", reply)
    groups = [
        Group(group_id="a", topics=[Topic(topic_name="flights", partitions=[1])]),
        Group(group_id="b", topics=None),
    ]
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    response = await harness.call(version, request, DescribeShareGroupOffsetsResponse)
    assert [(one.group_id, one.error_code, one.error_message) for one in response.groups] == [
        ("a", 0, None),
        ("b", 0, None),
    ]
    (topic,) = response.groups[0].topics
    assert (topic.topic_name, topic.topic_id) == ("flights", TOPIC.topic_id)
    (found,) = topic.partitions
    assert (found.partition_index, found.start_offset, found.leader_epoch) == (1, 70, 3)
    assert (found.lag, found.error_code, found.error_message) == (lag, 0, None)
    sent = {
        group.group_id: (group.all_topics, [(one.topic_name, list(one.partitions)) for one in group.topics])
        for request in harness.services.requests["DescribeShareGroupOffsets"]
        for group in request.groups
    }
    assert sent == {"a": (False, [("flights", [1])]), "b": (True, [])}


async def test_groups_of_another_coordinator_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id="a", topics=[])])
    response = await harness.call(1, request, DescribeShareGroupOffsetsResponse)
    assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_forbidden_topics_are_errors_by_name_and_omitted_in_all(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("DescribeShareGroupOffsets", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, "flights")
    named = Group(group_id="a", topics=[Topic(topic_name="flights", partitions=[1, 2])])
    request = DescribeShareGroupOffsetsRequest(groups=[named, Group(group_id="b", topics=None)])
    first, second = (await harness.call(1, request, DescribeShareGroupOffsetsResponse)).groups
    (topic,) = first.topics
    assert (first.error_code, topic.topic_name, topic.topic_id) == (ErrorCode.NONE, "flights", "")
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (2, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert (second.error_code, second.topics) == (ErrorCode.NONE, [])
    sent = harness.services.requests["DescribeShareGroupOffsets"]
    assert [[topic.topic_name for topic in one.groups[0].topics] for one in sent] == [[], []]


async def test_the_audit_log_has_denials_of_named_topics_only(
    harness: Harness, authorizer: TableAuthorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(audit, "denied", lambda *denial: logged.append(denial[2].name))
    harness.services.reply("DescribeShareGroupOffsets", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    for topics, names in ((None, []), ([Topic(topic_name="seats", partitions=[0])], ["seats"])):
        request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id="a", topics=topics)])
        await harness.call(1, request, DescribeShareGroupOffsetsResponse)
        assert logged == names
