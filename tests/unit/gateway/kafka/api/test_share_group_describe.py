"""ShareGroupDescribe: groups with members and assignments."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.ShareGroupDescribeRequest) -> pb.ShareGroupDescribeResponse:
    response = pb.ShareGroupDescribeResponse()
    for group_id in request.group_ids:
        if group_id != "g":
            unknown = wire(ErrorCode.GROUP_ID_NOT_FOUND)
            response.groups.add(group_id=group_id, error_code=unknown, error_message="unknown")
            continue
        group = response.groups.add(
            group_id="g", group_state="Stable", group_epoch=4, assignment_epoch=3, assignor_name="simple"
        )
        member = group.members.add(
            member_id="m", rack_id="r", member_epoch=3, client_id="c", client_host="/h"
        )
        member.subscribed_topic_names.append("flights")
        member.assignment.topic_partitions.add(
            topic_id=TOPIC.topic_id, topic_name="flights", partitions=[0, 1]
        )
        group.members.add(member_id="n")
    return response


async def test_members_and_assignments_are_described(harness: Harness) -> None:
    harness.services.reply("ShareGroupDescribe", reply)
    request = ShareGroupDescribeRequest(group_ids=["g", "none"])
    group, unknown = (await harness.call(1, request, ShareGroupDescribeResponse)).groups
    assert (group.error_code, group.error_message, group.group_id) == (ErrorCode.NONE, None, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 4, 3)
    assert group.assignor_name == "simple"
    first, second = group.members
    assert (first.member_id, first.rack_id, first.member_epoch, second.rack_id) == ("m", "r", 3, None)
    assert (first.client_id, first.client_host, first.subscribed_topic_names) == ("c", "/h", ["flights"])
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (
        TOPIC.topic_id,
        "flights",
        [0, 1],
    )
    assert (unknown.group_id, unknown.error_code) == ("none", ErrorCode.GROUP_ID_NOT_FOUND)
    assert unknown.error_message == "unknown"


async def test_authorized_operations_are_returned_on_request_for_known_groups(harness: Harness) -> None:
    harness.services.reply("ShareGroupDescribe", reply)
    request = ShareGroupDescribeRequest(group_ids=["g", "none"], include_authorized_operations=True)
    group, unknown = (await harness.call(1, request, ShareGroupDescribeResponse)).groups
    assert group.authorized_operations > 0
    assert unknown.authorized_operations == -(1 << 31)


async def test_groups_of_another_coordinator_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    request = ShareGroupDescribeRequest(group_ids=["g"])
    (group,) = (await harness.call(1, request, ShareGroupDescribeResponse)).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.NOT_COORDINATOR)


async def test_a_group_with_an_assigned_topic_that_is_forbidden_is_not_described(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("ShareGroupDescribe", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, TOPIC.name)
    request = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    (group,) = (await harness.call(1, request, ShareGroupDescribeResponse)).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (group.members, group.authorized_operations) == ([], -(1 << 31))
