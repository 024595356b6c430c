"""ListGroups: the groups of this broker, with state and type by version."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import ListGroupsRequest, ListGroupsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import SHARDS, Harness


def reply(_: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
    response = pb.ListGroupsResponse(shards=SHARDS)
    response.groups.add(group_id="b", protocol_type="share", group_state="Empty", group_type="share")
    response.groups.add(group_id="a", protocol_type="consumer", group_state="Stable", group_type="classic")
    return response


@pytest.mark.parametrize(
    ("version", "state", "kind"), [(3, "", ""), (4, "Stable", ""), (5, "Stable", "classic")]
)
async def test_groups_are_listed_by_name(harness: Harness, version: int, state: str, kind: str) -> None:
    harness.services.reply("ListGroups", reply)
    request = ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"])
    response = await harness.call(version, request, ListGroupsResponse)
    first, second = response.groups
    assert (first.group_id, first.protocol_type, second.group_id) == ("a", "consumer", "b")
    assert (first.group_state, first.group_type) == (state, kind)
    sent = harness.services.only("ListGroups")
    assert sent.states_filter == (["Stable"] if version >= 4 else [])
    assert sent.types_filter == (["classic"] if version >= 5 else [])


async def test_groups_of_other_coordinators_are_omitted(harness: Harness) -> None:
    harness.services.reply("ListGroups", reply)
    harness.lead_elsewhere()
    response = await harness.call(5, ListGroupsRequest(), ListGroupsResponse)
    assert (response.error_code, response.groups) == (ErrorCode.NONE, [])


async def test_groups_are_listed_that_the_client_may_describe(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("ListGroups", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.GROUP, "a")
    response = await harness.call(5, ListGroupsRequest(), ListGroupsResponse)
    assert [one.group_id for one in response.groups] == ["a", "b"], "DESCRIBE on the cluster shows all"
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    response = await harness.call(5, ListGroupsRequest(), ListGroupsResponse)
    assert (response.error_code, [one.group_id for one in response.groups]) == (ErrorCode.NONE, ["b"])
