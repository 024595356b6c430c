"""OffsetFetch: one group up to version 7, several from version 8 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import OffsetFetchRequest, OffsetFetchResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.OffsetFetchRequest) -> pb.OffsetFetchResponse:
    if request.group_id != "g":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "unknown")
    response = pb.OffsetFetchResponse()
    response.partitions.add(
        topic_id=TOPIC.topic_id, partition=1, committed_offset=40, committed_leader_epoch=3, metadata="x"
    )
    return response


def one_group(topics: bool = True) -> OffsetFetchRequest:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC.name, partition_indexes=[0, 1])
    return OffsetFetchRequest(group_id="g", topics=[topic] if topics else None, require_stable=True)


def group(
    version: int, group_id: str = "g", name: str = TOPIC.name, topic_id: str = TOPIC.topic_id
) -> OffsetFetchRequest.OffsetFetchRequestGroup:
    by_id = version >= 10
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name="" if by_id else name, topic_id=topic_id if by_id else "", partition_indexes=[0, 1]
    )
    return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])


@pytest.mark.parametrize("version", [1, 5, 7])
async def test_version_7_names_one_group(harness: Harness, version: int) -> None:
    harness.services.reply("OffsetFetch", reply)
    (topic,) = (await harness.call(version, one_group(), OffsetFetchResponse)).topics
    assert topic.name == TOPIC.name
    none, found = topic.partitions
    assert (none.partition_index, none.committed_offset, none.metadata, none.error_code) == (0, -1, "", 0)
    assert (found.partition_index, found.committed_offset, found.metadata) == (1, 40, "x")
    assert found.committed_leader_epoch == (3 if version >= 5 else -1)
    assert harness.services.only("OffsetFetch").require_stable is (version >= 7)


async def test_null_means_all_topics_with_offsets(harness: Harness) -> None:
    harness.services.reply("OffsetFetch", reply)
    (topic,) = (await harness.call(7, one_group(topics=False), OffsetFetchResponse)).topics
    assert (topic.name, [one.partition_index for one in topic.partitions]) == (TOPIC.name, [1])


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_version_8_names_several_groups(harness: Harness, version: int) -> None:
    harness.services.reply("OffsetFetch", reply)
    groups = [group(version), group(version, "none")]
    response = await harness.call(version, OffsetFetchRequest(groups=groups), OffsetFetchResponse)
    found, unknown = response.groups
    assert (found.group_id, found.error_code) == ("g", ErrorCode.NONE)
    (topic,) = found.topics
    assert (topic.name, topic.topic_id) == (("", TOPIC.topic_id) if version >= 10 else (TOPIC.name, ""))
    assert [(one.partition_index, one.committed_offset) for one in topic.partitions] == [(0, -1), (1, 40)]
    assert (unknown.group_id, unknown.error_code) == ("none", ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize("topic_id", ["", "AAAAAAAAAAAAAAAAAAAAAQ"])
async def test_an_unknown_topic_id_is_an_error_of_its_partitions(harness: Harness, topic_id: str) -> None:
    harness.services.reply("OffsetFetch", reply)
    request = OffsetFetchRequest(groups=[group(10, topic_id=topic_id), group(10)])
    unknown, found = (await harness.call(10, request, OffsetFetchResponse)).groups
    assert unknown.topics[0].topic_id == topic_id
    assert [(one.committed_offset, one.error_code) for one in unknown.topics[0].partitions] == [
        (-1, ErrorCode.UNKNOWN_TOPIC_ID)
    ] * 2
    assert [one.error_code for one in found.topics[0].partitions] == [ErrorCode.NONE] * 2


async def test_an_unknown_name_has_no_offsets(harness: Harness) -> None:
    harness.services.reply("OffsetFetch", reply)
    request = OffsetFetchRequest(groups=[group(9, name="absent")])
    (found,) = (await harness.call(9, request, OffsetFetchResponse)).groups
    assert [(one.committed_offset, one.error_code) for one in found.topics[0].partitions] == [(-1, 0)] * 2


async def test_many_groups_keep_their_order(harness: Harness) -> None:
    harness.services.reply("OffsetFetch", reply)
    names = [f"group-{number}" for number in range(101)]
    request = OffsetFetchRequest(groups=[group(8, name) for name in names])
    response = await harness.call(8, request, OffsetFetchResponse)
    assert [one.group_id for one in response.groups] == names


@pytest.mark.parametrize(("version", "code"), [(1, 0), (2, ErrorCode.NOT_COORDINATOR)])
async def test_rejected_old_request_fails_each_partition(harness: Harness, version: int, code: int) -> None:
    harness.lead_elsewhere()
    response = await harness.call(version, one_group(), OffsetFetchResponse)
    assert response.error_code == code
    found = [(one.committed_offset, one.error_code) for one in response.topics[0].partitions]
    assert found == [(-1, ErrorCode.NOT_COORDINATOR)] * 2


async def test_forbidden_topics_are_errors_by_name_and_omitted_otherwise(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("OffsetFetch", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, TOPIC.name)
    (topic,) = (await harness.call(7, one_group(), OffsetFetchResponse)).topics
    assert [(one.committed_offset, one.error_code) for one in topic.partitions] == [
        (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert (await harness.call(7, one_group(topics=False), OffsetFetchResponse)).topics == []


async def test_a_forbidden_group_does_not_affect_the_others(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("OffsetFetch", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "secret")
    request = OffsetFetchRequest(groups=[group(8), group(8, "secret")])
    found = (await harness.call(8, request, OffsetFetchResponse)).groups
    assert [(one.group_id, one.error_code, len(one.topics)) for one in found] == [
        ("g", ErrorCode.NONE, 1),
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, 0),
    ]
