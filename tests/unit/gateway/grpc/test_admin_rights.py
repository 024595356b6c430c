"""Requests of AdminService of which the caller may use a part."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.authorization import Access
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc import admin_rights as rights
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, catalog
from tests.unit.gateway.grpc.calls import Context
from tests.unit.gateway.kafka.api.test_many_entries import CountedTurns

SECRET = Topic("S" * 21 + "A", "secret", 1)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Function:
    """A function of the gateway: it records requests and returns what a test sets."""

    def __init__(self, response: Any = None) -> None:
        self.requests: list[Any] = []
        self.response = response

    async def __call__(self, gateway: Gateway, request: Any, deadline: Deadline) -> Any:
        self.requests.append(request)
        return self.response


@pytest.fixture
def table() -> TableAuthorizer:
    return TableAuthorizer()


@pytest.fixture
def access(harness: Harness, table: TableAuthorizer) -> Access:
    harness.gateway.catalog = catalog([TOPIC, SECRET])
    harness.gateway.authorizer = table
    return Access(harness.gateway, Context(None))


def codes(items: Any) -> list[int]:
    return [item.error_code for item in items]


async def test_many_items_are_authorized_in_portions(access: Access, table: TableAuthorizer) -> None:
    table.deny(AclOperation.CREATE, AclResourceType.CLUSTER)
    table.deny(AclOperation.CREATE, AclResourceType.TOPIC, "secret")
    access.gateway.turns = turns = CountedTurns()
    topics = [cluster_pb2.CreateTopicsRequest.Topic(name="secret")] * 2_000
    request = cluster_pb2.CreateTopicsRequest(topics=topics)
    response = await rights.CREATE_TOPICS(Function(), access, request, Deadline(10))
    assert codes(response.topics) == [DENIED] * 2_000
    assert turns.taken >= 8


async def test_metadata_of_many_topics_is_authorized_in_portions(
    access: Access, table: TableAuthorizer
) -> None:
    names = [f"topic{number}" for number in range(2_000)]
    for name in names:
        table.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    access.gateway.turns = turns = CountedTurns()
    response = await rights.metadata(
        Function(), access, admin_pb2.MetadataRequest(topics=names), Deadline(10)
    )
    assert codes(response.topics) == [DENIED] * 2_000
    assert turns.taken >= 8


async def test_denied_topics_get_their_error_and_the_others_are_created(
    access: Access, table: TableAuthorizer
) -> None:
    table.deny(AclOperation.CREATE, AclResourceType.CLUSTER)
    table.deny(AclOperation.CREATE, AclResourceType.TOPIC, "secret")
    made = cluster_pb2.CreateTopicsResponse.Topic
    create = Function(cluster_pb2.CreateTopicsResponse(topics=[made(name="a"), made(name="b")]))
    topic = cluster_pb2.CreateTopicsRequest.Topic
    request = cluster_pb2.CreateTopicsRequest(topics=[topic(name=name) for name in ("a", "secret", "b")])
    response = await rights.CREATE_TOPICS(create, access, request, Deadline(1))
    assert [each.name for each in response.topics] == ["a", "secret", "b"], "in the order of the request"
    assert codes(response.topics) == [0, DENIED, 0]
    assert [each.name for each in create.requests[0].topics] == ["a", "b"]


async def test_nothing_is_called_if_every_item_is_denied(access: Access, table: TableAuthorizer) -> None:
    table.deny(AclOperation.DELETE, AclResourceType.GROUP)
    delete = Function()
    response = await rights.DELETE_GROUPS(
        delete, access, group.DeleteGroupsRequest(group_ids=["g"]), Deadline(1)
    )
    assert codes(response.results) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert not delete.requests


async def test_metadata_of_all_topics_leaves_out_denied_ones(access: Access, table: TableAuthorizer) -> None:
    table.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, "secret")
    response = await rights.metadata(Function(), access, admin_pb2.MetadataRequest(), Deadline(1))
    assert [topic.name for topic in response.topics] == ["flights"]
    assert len(response.nodes) == 1


async def test_a_denied_topic_and_an_unknown_one_look_alike(access: Access, table: TableAuthorizer) -> None:
    table.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, "secret", "unknown")
    request = admin_pb2.MetadataRequest(topics=["secret", "unknown", "flights"])
    response = await rights.metadata(Function(), access, request, Deadline(1))
    found = {topic.name: topic for topic in response.topics}
    assert codes(found[name] for name in ("secret", "unknown", "flights")) == [DENIED, DENIED, 0]
    assert not found["secret"].topic_id
    assert not found["secret"].partitions


@pytest.mark.parametrize(
    ("operation", "code"),
    [(AclOperation.DESCRIBE, ErrorCode.UNKNOWN_TOPIC_ID), (AclOperation.DELETE, DENIED)],
)
async def test_the_id_of_a_topic_is_unknown_without_describe(
    access: Access, table: TableAuthorizer, operation: AclOperation, code: ErrorCode
) -> None:
    table.deny(AclOperation.DELETE, AclResourceType.CLUSTER)
    table.deny(operation, AclResourceType.TOPIC, "secret")
    by_id = cluster_pb2.DeleteTopicsRequest.Topic(topic_id=SECRET.topic_id)
    request = cluster_pb2.DeleteTopicsRequest(topics=[by_id])
    (result,) = (await rights.DELETE_TOPICS(Function(), access, request, Deadline(1))).topics
    assert (result.error_code, result.name) == (code, "")


async def test_partitions_of_an_unknown_id_are_left_to_the_function(
    access: Access, table: TableAuthorizer
) -> None:
    table.deny_all()
    parts = [leader.ListOffsetsRequest.Partition(topic_id=i) for i in ("unknown", SECRET.topic_id)]
    found = leader.ListOffsetsResponse.Partition(topic_id="unknown", error_code=ErrorCode.UNKNOWN_TOPIC_ID)  # type: ignore[arg-type]
    offsets = Function(leader.ListOffsetsResponse(partitions=[found]))
    request = leader.ListOffsetsRequest(partitions=parts)
    response = await rights.LIST_OFFSETS(offsets, access, request, Deadline(1))
    assert codes(response.partitions) == [ErrorCode.UNKNOWN_TOPIC_ID, DENIED]


async def test_locks_of_a_group_are_counted_with_the_right_to_describe_it(
    access: Access, table: TableAuthorizer
) -> None:
    table.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "hidden")
    part = leader.ListOffsetsRequest.Partition
    request = leader.ListOffsetsRequest(
        partitions=[part(topic_id=TOPIC.topic_id, locked_by_group=name) for name in ("hidden", "g")]
    )
    found = leader.ListOffsetsResponse.Partition(topic_id=TOPIC.topic_id, locked=3)
    offsets = Function(leader.ListOffsetsResponse(partitions=[found]))
    response = await rights.LIST_OFFSETS(offsets, access, request, Deadline(1))
    assert [(row.error_code, row.locked) for row in response.partitions] == [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 0),
        (ErrorCode.NONE, 3),
    ]


async def test_only_groups_that_may_be_described_are_listed(access: Access, table: TableAuthorizer) -> None:
    table.deny(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    table.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "hidden")
    listed = group.ListGroupsResponse.ListedGroup
    groups = group.ListGroupsResponse(groups=[listed(group_id="hidden"), listed(group_id="g")])
    response = await rights.list_groups(Function(groups), access, group.ListGroupsRequest(), Deadline(1))
    assert [one.group_id for one in response.groups] == ["g"]


@pytest.mark.parametrize("every", [True, False])
async def test_offsets_of_denied_topics_are_left_out_or_refused(
    access: Access, table: TableAuthorizer, every: bool
) -> None:
    table.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, "secret")
    message, answer = group.DescribeShareGroupOffsetsRequest, group.DescribeShareGroupOffsetsResponse
    topics = [message.Topic(topic_name=name, partitions=[0]) for name in ("secret", "flights")]
    request = message(groups=[message.Group(group_id="g", all_topics=every, topics=topics)])
    found = [answer.Topic(topic_name=name) for name in ("secret", "flights")[not every :]]
    described = Function(answer(groups=[answer.Group(group_id="g", topics=found)]))
    response = await rights.describe_offsets(described, access, request, Deadline(1))
    names = [topic.topic_name for topic in response.groups[0].topics]
    assert names == (["flights"] if every else ["flights", "secret"])
    if not every:
        assert codes(response.groups[0].topics[1].partitions) == [DENIED]
