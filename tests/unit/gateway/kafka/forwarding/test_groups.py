"""Requests about groups: consumer groups of the cluster beside share groups of this one."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as consumer_groups
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.kafka.forwarding.upstream import GROUP
from sharebroker_server.kafka_wire.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import SHARDS, Harness
from tests.unit.gateway.kafka.forwarding.harness import OTHER, OWN, FakeUpstream


def found(topics: list[str], several: bool) -> list[Any]:
    """Topics of a response, each with the offset 5 of partition 0."""
    made: Any = OffsetFetchResponse
    topic, part = (
        (made.OffsetFetchResponseTopics, made.OffsetFetchResponsePartitions)
        if several
        else (made.OffsetFetchResponseTopic, made.OffsetFetchResponsePartition)
    )
    parts = [part(partition_index=0, committed_offset=5, metadata="")]
    return [topic(name=name, partitions=parts) for name in topics]


def offsets(_: int, request: Any) -> OffsetFetchResponse:
    """The response of a coordinator that has offsets of both topics."""
    stored = [OTHER.name, TOPIC.name]
    if not request.groups:
        names = stored if request.topics is None else [topic.name for topic in request.topics]
        return OffsetFetchResponse(topics=found(names, several=False))
    (group,) = request.groups
    names = stored if group.topics is None else [topic.name for topic in group.topics]
    made = OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group.group_id, topics=found(names, several=True)
    )
    return OffsetFetchResponse(groups=[made])


def asked(version: int, names: list[str] | None) -> OffsetFetchRequest:
    if version < 8:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        listed = None if names is None else [topic(name=name, partition_indexes=[0]) for name in names]
        return OffsetFetchRequest(group_id="g", topics=listed)
    several = OffsetFetchRequest.OffsetFetchRequestTopics
    wanted = None if names is None else [several(name=name, partition_indexes=[0]) for name in names]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=wanted)
    return OffsetFetchRequest(groups=[group])


def results(version: int, response: OffsetFetchResponse) -> list[tuple[str, int, int]]:
    topics: Any = response.topics if version < 8 else response.groups[0].topics
    return [
        (topic.name, one.committed_offset, one.error_code) for topic in topics for one in topic.partitions
    ]


@pytest.mark.parametrize("version", [2, 7, 8, 9])
async def test_offsets_of_both_clusters_are_joined_for_permitted_topics(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer, version: int
) -> None:
    here = consumer_groups.OffsetFetchResponse()
    here.partitions.add(topic_id=OWN.topic_id, partition=0, committed_offset=8)
    harness.services.reply("OffsetFetch", here)
    upstream.reply = offsets
    upstream.coordinated = {(GROUP, "g"): 2}
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, OTHER.name)
    response = await harness.call(
        version, asked(version, [OTHER.name, OWN.name, TOPIC.name]), OffsetFetchResponse
    )
    assert results(version, response) == [
        (OTHER.name, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (OWN.name, 8, 0),
        (TOPIC.name, 5, 0),
    ]
    assert [node for node, _ in upstream.sent] == [2]
    response = await harness.call(version, asked(version, None), OffsetFetchResponse)
    assert results(version, response) == [(TOPIC.name, 5, 0), (OWN.name, 8, 0)]


@pytest.mark.parametrize("version", [7, 8])
async def test_offsets_require_the_right_on_the_group(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer, version: int
) -> None:
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "g")
    response = await harness.call(version, asked(version, [TOPIC.name]), OffsetFetchResponse)
    code = response.error_code if version < 8 else response.groups[0].error_code
    assert code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not upstream.sent


async def test_each_group_is_described_by_its_coordinator(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    upstream.coordinated = {(GROUP, "a"): 1, (GROUP, "b"): 2}
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "secret")

    def described(node: int, request: Any) -> DescribeGroupsResponse:
        (group_id,) = request.groups
        group = DescribeGroupsResponse.DescribedGroup(group_id=group_id, group_state=f"at {node}")
        return DescribeGroupsResponse(groups=[group])

    upstream.reply = described
    request = DescribeGroupsRequest(groups=["b", "secret", "a"])
    response = await harness.call(5, request, DescribeGroupsResponse)
    assert [(one.group_id, one.group_state, one.error_code) for one in response.groups] == [
        ("b", "at 2", 0),
        ("secret", "", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("a", "at 1", 0),
    ]


async def test_lists_have_the_groups_of_both_clusters(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    listed = pb.ListGroupsResponse.ListedGroup
    harness.services.reply(
        "ListGroups", pb.ListGroupsResponse(shards=SHARDS, groups=[listed(group_id="share")])
    )
    names = {1: ["a", "share"], 2: ["b", "secret"]}
    upstream.reply = lambda node, _: ListGroupsResponse(
        groups=[ListGroupsResponse.ListedGroup(group_id=name) for name in names[node]]
    )
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "secret")
    response = await harness.call(4, ListGroupsRequest(), ListGroupsResponse)
    assert [group.group_id for group in response.groups] == ["share", "a", "b"]
    harness.lead_elsewhere()
    response = await harness.call(4, ListGroupsRequest(), ListGroupsResponse)
    assert not response.groups


async def test_a_group_that_is_not_here_is_deleted_in_the_cluster(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    def described(request: pb.ShareGroupDescribeRequest) -> pb.ShareGroupDescribeResponse:
        group = pb.ShareGroupDescribeResponse.DescribedGroup
        return pb.ShareGroupDescribeResponse(
            groups=[group(group_id=name, group_epoch=1) for name in request.group_ids]
        )

    def here(request: pb.DeleteGroupsRequest) -> pb.DeleteGroupsResponse:
        result = pb.DeleteGroupsResponse.DeletableGroupResult
        missing = wire(ErrorCode.GROUP_ID_NOT_FOUND)
        results = [
            result(group_id=name, error_code=wire(ErrorCode.NONE) if name == "share" else missing)
            for name in request.group_ids
        ]
        return pb.DeleteGroupsResponse(results=results)

    def there(_: int, request: Any) -> DeleteGroupsResponse | KafkaError:
        (name,) = request.groups_names
        if name == "away":
            return KafkaError(ErrorCode.NETWORK_EXCEPTION)
        result = DeleteGroupsResponse.DeletableGroupResult(group_id=name)
        return DeleteGroupsResponse(results=[result])

    harness.services.reply("ShareGroupDescribe", described)
    harness.services.reply("DeleteGroups", here)
    upstream.reply = there
    authorizer.deny(AclOperation.DELETE, AclResourceType.GROUP, "secret")
    request = DeleteGroupsRequest(groups_names=["share", "consumer", "secret", "away"])
    response = await harness.call(2, request, DeleteGroupsResponse)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("share", 0),
        ("consumer", 0),
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("away", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    assert {message.groups_names[0] for message in upstream.messages()} == {"consumer", "away"}
